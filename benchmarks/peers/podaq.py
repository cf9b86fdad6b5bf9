"""podaq's C interface (include/podaq/c_api.h) for numpy arrays.

    model = podaq.Model(podaq.Library("libpodaq.so"), "net.podaq")
    logits = podaq.Runner(model, max_batch=64).run(frames)
"""
import ctypes
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p

import numpy


class Port(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("rank", c_size_t), ("dims", POINTER(c_int64)), ("sample_elements", c_size_t)]


class Library:
    """libpodaq.so; calls raise RuntimeError with podaq's own text."""

    def __init__(self, path):
        self.c = ctypes.CDLL(str(path))
        for name, result, *arguments in (
                ("version", c_char_p), ("last_error", c_char_p), ("model_load", c_int, c_char_p, c_void_p),
                ("model_free", None, c_void_p), ("model_input", c_int, c_void_p, c_size_t, c_void_p),
                ("model_output", c_int, c_void_p, c_size_t, c_void_p), ("model_instruction_set", c_char_p, c_void_p),
                ("runner_create", c_int, c_void_p, c_size_t, c_size_t, c_void_p), ("runner_free", None, c_void_p),
                ("run", c_int, c_void_p, c_void_p, c_size_t, c_void_p, c_size_t)):
            function = getattr(self.c, "podaq_" + name)
            function.restype, function.argtypes = result, arguments

    def check(self, status):
        if status:
            raise RuntimeError(self.c.podaq_last_error().decode())


class Model:
    """A network of one input and one output."""

    def __init__(self, library, path):
        self.library, self.handle = library, c_void_p()
        library.check(library.c.podaq_model_load(str(path).encode(), byref(self.handle)))
        self.input_shape = self._shape(library.c.podaq_model_input)
        self.output_shape = self._shape(library.c.podaq_model_output)
        self.instruction_set = library.c.podaq_model_instruction_set(self.handle).decode()

    def _shape(self, describe):
        port = Port()
        self.library.check(describe(self.handle, 0, byref(port)))
        return tuple(port.dims[: port.rank])

    def __del__(self):
        self.library.c.podaq_model_free(self.handle)


class Runner:
    def __init__(self, model, max_batch, threads=1):
        self.model, self.library, self.handle = model, model.library, c_void_p()
        self.library.check(self.library.c.podaq_runner_create(model.handle, max_batch, threads, byref(self.handle)))

    def __del__(self):
        self.library.c.podaq_runner_free(self.handle)

    def prepare(self, samples):
        """The result array of a run over `samples` [batch, ...], and a function that does the run again and again."""
        samples = numpy.ascontiguousarray(samples, dtype=numpy.float32)
        results = numpy.empty((len(samples), *self.model.output_shape), dtype=numpy.float32)
        call, check = self.library.c.podaq_run, self.library.check
        arguments = self.handle, samples.ctypes.data, samples.size, results.ctypes.data, results.size
        return results, lambda _alive=(self, samples): check(call(*arguments))

    def run(self, samples):
        results, run = self.prepare(samples)
        run()
        return results
