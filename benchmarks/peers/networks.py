"""The networks that make_networks describes, as ONNX models."""
import json
import logging
import pathlib

import numpy


class Network:
    """A float network as it is trained: nodes in execution order and their tensors by name."""

    def __init__(self, path):
        description = json.loads(pathlib.Path(f"{path}.json").read_text(encoding="utf-8"))
        numbers = numpy.fromfile(f"{path}.f32", dtype=numpy.float32)
        self.input_shape = tuple(description["input_shape"])
        self.output_shape = tuple(description["output_shape"])
        self.nodes = description["nodes"]
        self.tensors = {}
        for name, place in description["tensors"].items():
            shape = tuple(place["shape"])
            self.tensors[name] = numbers[place["first"]:][: numpy.prod(shape, dtype=int)].reshape(shape)

    def tensors_of(self, node):
        """The node's tensors in the op's order; None for an absent one."""
        return [self.tensors.get(name) for name in node["tensors"]]

    def multiply_adds(self):
        """Multiplications of one sample."""
        total, positions = 0, numpy.prod(self.input_shape[1:], dtype=int)
        for node in self.nodes:
            if node["op"] == "conv":  # all of them keep the spatial size
                total += positions * self.tensors[node["tensors"][0]].size
            elif node["op"] == "linear":
                total += self.tensors[node["tensors"][0]].size
            elif node["op"] == "max_pool":
                positions //= numpy.prod(node["attributes"]["kernel"], dtype=int)
        return int(total)


def onnx_model(network):
    """The float network as an ONNX model with a free batch size, batch norms folded into the layers before them."""
    import onnx
    from onnx import helper, numpy_helper

    nodes, initializers, alias = [], [], {}

    def constant(name, tensor):
        initializers.append(numpy_helper.from_array(numpy.ascontiguousarray(tensor), name))
        return name

    for index, node in enumerate(network.nodes):
        inputs = [alias.get(name, name) for name in node["inputs"]]
        output, attributes = node["output"], node["attributes"]
        if node["op"] in ("conv", "linear"):
            weight, bias = network.tensors_of(node)
            bias = numpy.zeros(len(weight), numpy.float32) if bias is None else bias
            following = network.nodes[index + 1] if index + 1 < len(network.nodes) else None
            if following and following["op"] == "batch_norm":
                weight, bias = fold_batch_norm(network, following, weight, bias)
            inputs += [constant(node["name"] + ".weight", weight), constant(node["name"] + ".bias", bias)]
            if node["op"] == "conv":
                made = helper.make_node("Conv", inputs, [output], kernel_shape=weight.shape[2:],
                                        strides=attributes["stride"], pads=attributes["pads"] * 2)
            else:
                made = helper.make_node("Gemm", inputs, [output], transB=1)
        elif node["op"] == "batch_norm":
            alias[output] = inputs[0]
            continue
        elif node["op"] == "max_pool":
            made = helper.make_node("MaxPool", inputs, [output], kernel_shape=attributes["kernel"],
                                    strides=attributes["stride"])
        else:
            made = helper.make_node({"clamp": "Relu", "reshape": "Flatten", "add": "Add"}[node["op"]], inputs, [output])
        made.name = node["name"]
        nodes.append(made)

    ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", *shape])
             for name, shape in (("input", network.input_shape), ("output", network.output_shape))]
    graph = helper.make_graph(nodes, "network", ports[:1], ports[1:], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def fold_batch_norm(network, node, weight, bias):
    """The weight and bias of a layer with the batch norm that follows it."""
    gamma, beta, mean, variance = network.tensors_of(node)[:4]
    scale = gamma / numpy.sqrt(variance + numpy.float32(node["attributes"]["epsilon"]))
    return weight * scale.reshape(-1, *[1] * (weight.ndim - 1)), (bias - mean) * scale + beta


def quantized_onnx_model(model, calibration_batches, folder):
    """The model with QuantizeLinear and DequantizeLinear nodes (QDQ), static: u8 activations, s8 weights per channel."""
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.batches = iter(calibration_batches)

        def get_next(self):
            batch = next(self.batches, None)
            return None if batch is None else {"input": batch}

    logging.getLogger().setLevel(logging.ERROR)  # it advises a pass that folds batch norms; they are folded
    source, target = f"{folder}/float.onnx", f"{folder}/int8.onnx"
    onnx.save(model, source)
    quantize_static(source, target, Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    return onnx.load(target)


def with_batch(model, batch):
    """The serialized model for one batch size, which lets engines plan ahead."""
    import onnx

    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for port in (*fixed.graph.input, *fixed.graph.output):
        port.type.tensor_type.shape.dim[0].dim_value = batch
    del fixed.graph.value_info[:]
    return fixed.SerializeToString()
