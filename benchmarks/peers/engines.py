"""The contestants: each a name and a function that runs one batch, with all buffers bound beforehand."""
import ctypes
import dataclasses
import tempfile
from typing import Callable

import networks
import numpy
import onnxruntime
import openvino

import podaq

PEERS_INT8 = ("onnxruntime_int8", "openvino_int8")
PODAQ_FILES = {"podaq_float": "float", "podaq_int8": "dense", "podaq_int8_90": "unstructured",
               "podaq_int8_90_4x1": "block_4x1"}
NAMES = ("libtorch_float", "onnxruntime_float", "openvino_float", *PEERS_INT8, *PODAQ_FILES)
FLOAT_NAMES = tuple(name for name in NAMES if name.endswith("_float"))


@dataclasses.dataclass
class Engine:
    name: str
    run: Callable[[], None]
    result: Callable[[], numpy.ndarray]
    kernels: tuple = ()


class Factory:
    """Builds the engines of one network."""

    def __init__(self, path, libpodaq, libtorch_peer):
        self.path, self.libpodaq, self.libtorch_peer = path, libpodaq, libtorch_peer
        self.network = networks.Network(path)
        self.onnx_float = networks.onnx_model(self.network)
        noise = numpy.random.default_rng(1)
        batches = [noise.standard_normal((8, *self.network.input_shape), dtype=numpy.float32) for _ in range(4)]
        with tempfile.TemporaryDirectory() as scratch:
            self.onnx_int8 = networks.quantized_onnx_model(self.onnx_float, batches, scratch)

    def build(self, name, samples, threads):
        """The engine of that name for these samples, or None where there is none for so many threads."""
        if name in PODAQ_FILES:
            return self.build_podaq(name, samples, threads)
        if name == "libtorch_float":
            return self.libtorch_peer and build_libtorch(self.libtorch_peer, self.path, self.network, samples, threads)
        model = self.onnx_int8 if name.endswith("_int8") else self.onnx_float
        build = build_onnxruntime if name.startswith("onnxruntime") else build_openvino
        return build(name, networks.with_batch(model, len(samples)), samples, threads)

    def build_podaq(self, name, samples, threads):
        model = podaq.Model(self.libpodaq, f"{self.path}_{PODAQ_FILES[name]}.podaq")
        results, run = podaq.Runner(model, max_batch=len(samples), threads=threads).prepare(samples)
        return Engine(name, run, lambda: results, (model.instruction_set,))


def load_libtorch_peer(path):
    """libtorch_peer.cpp, with the types of its functions; None where podaq was built without LibTorch."""
    if not path.is_file():
        return None
    peer = ctypes.CDLL(str(path))
    peer.libtorch_peer_version.restype = ctypes.c_char_p
    peer.libtorch_peer_create.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int,
                                          ctypes.c_void_p)
    peer.libtorch_peer_run.argtypes = (ctypes.c_void_p,)
    peer.libtorch_peer_output.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    peer.libtorch_peer_free.argtypes, peer.libtorch_peer_free.restype = (ctypes.c_void_p,), None
    return peer


class LibTorchNetwork:
    def __init__(self, peer, path, samples, threads):
        self.peer, self.handle = peer, ctypes.c_void_p()
        if peer.libtorch_peer_create(str(path).encode(), samples.ctypes.data, len(samples), threads,
                                     ctypes.byref(self.handle)):
            raise SystemExit("LibTorch cannot build the network; it says why, above")

    def __del__(self):
        self.peer.libtorch_peer_free(self.handle)

    def run(self):
        if self.peer.libtorch_peer_run(self.handle):
            raise SystemExit("LibTorch cannot run the network; it says why, above")

    def output(self, shape):
        result = numpy.empty(shape, numpy.float32)
        self.peer.libtorch_peer_output(self.handle, result.ctypes.data, result.size)
        return result


def build_libtorch(peer, path, network, samples, threads):
    built = LibTorchNetwork(peer, path, samples, threads)
    return Engine("libtorch_float", built.run, lambda: built.output((len(samples), *network.output_shape)))


def build_onnxruntime(name, model, samples, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Its threads must not spin while the next contestant is timed.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_cpu_input("input", samples)
    binding.bind_output("output", "cpu")
    return Engine(name, lambda: session.run_with_iobinding(binding), lambda: binding.copy_outputs_to_cpu()[0])


def build_openvino(name, model, samples, threads):
    properties = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
                  "ENABLE_CPU_PINNING": False}
    if name.endswith("_float"):
        properties["INFERENCE_PRECISION_HINT"] = "f32"  # on CPUs with AMX it would calculate in bf16
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", properties)
    request = compiled.create_infer_request()
    request.set_input_tensor(openvino.Tensor(samples, shared_memory=True))
    return Engine(name, request.infer, lambda: request.get_output_tensor().data, openvino_kernels(compiled))


def openvino_kernels(compiled):
    """The kinds of kernels that OpenVINO chose, the instruction set in their names."""
    kinds = {str(node.get_rt_info()["primitiveType"].value) for node in compiled.get_runtime_model().get_ops()}
    return tuple(sorted(kind for kind in kinds if not kind.startswith("unknown")))


def versions(libpodaq, libtorch_peer):
    libtorch = libtorch_peer.libtorch_peer_version().decode() if libtorch_peer else "left out (podaq built without it)"
    return (f"podaq {libpodaq.c.podaq_version().decode()}", f"LibTorch {libtorch}",
            f"ONNX Runtime {onnxruntime.__version__}", f"OpenVINO {openvino.__version__}")
