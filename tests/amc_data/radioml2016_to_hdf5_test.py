#!/usr/bin/env python3
"""Checks examples/amc/radioml2016_to_hdf5.py on small pickles of the kind that Python 2 wrote, and that amc-data reads
what it writes.

  radioml2016_to_hdf5_test.py SCRIPT AMC_DATA
"""

import contextlib
import importlib.util
import io
import os
import pathlib
import pickle
import struct
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import h5py
import numpy


def load_script(path):
    spec = importlib.util.spec_from_file_location("radioml2016_to_hdf5", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCRIPT, AMC_DATA = sys.argv[1:3]
sys.dont_write_bytecode = True
CONVERTER = load_script(SCRIPT)
NAMES = ["WBFM", "8PSK", "AM-SSB"]
SNRS = [18, -20, 0]
LENGTH = 16


class Python2Pickler(pickle._Pickler):
    """Writes text and bytes as Python 2's str, and NumPy's modules under their older names."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_python2_string(self, value):
        data = value.encode("latin1") if isinstance(value, str) else value
        self.write(pickle.BINSTRING + struct.pack("<i", len(data)) + data)
        self.memoize(value)

    dispatch[bytes] = save_python2_string
    dispatch[str] = save_python2_string

    def save_global(self, value, name=None):
        module = value.__module__.replace("numpy._core", "numpy.core")
        self.write(pickle.GLOBAL + f"{module}\n{value.__name__}\n".encode())
        self.memoize(value)

    dispatch[type] = save_global
    dispatch[type(lambda: 0)] = save_global
    dispatch[type(len)] = save_global


def small_set():
    """Frames that tell where they come from."""
    return {(name, snr): numpy.arange(3 * 2 * LENGTH, dtype=numpy.float32).reshape(3, 2, LENGTH)
            + numpy.float32(1000 * i + 100 * j) for i, name in enumerate(NAMES) for j, snr in enumerate(SNRS)}


class Conversion(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.pickle = pathlib.Path(self.folder.name) / "in.pkl"
        self.output = pathlib.Path(self.folder.name) / "out.hdf5"

    def tearDown(self):
        self.folder.cleanup()

    def write(self, content, pickler=Python2Pickler):
        with open(self.pickle, "wb") as file:
            pickler(file, protocol=2).dump(content)

    def convert(self):
        """Runs the script here, since starting one for each case would take most of the time; its error text or None."""
        with unittest.mock.patch.object(sys, "argv", ["script", str(self.pickle), str(self.output)]), \
                contextlib.redirect_stdout(io.StringIO()):
            try:
                CONVERTER.main()
            except SystemExit as end:
                return end.code
        return None

    def expect_refused(self, part):
        self.assertIn(part, self.convert() or "")
        self.assertEqual(os.listdir(self.folder.name), ["in.pkl"])

    def test_rows_are_ordered_and_labelled(self):
        content = small_set()
        for pickler in (Python2Pickler, pickle.Pickler):
            self.write(content, pickler)
            self.assertIsNone(self.convert())
            names, snrs = sorted(NAMES), sorted(SNRS)
            with h5py.File(self.output) as file:
                self.assertEqual([name.decode() for name in file["classes"]], names)
                self.assertEqual(list(file["snrs"]), snrs)
                self.assertEqual(file["X"].shape, (27, LENGTH, 2))
                self.assertEqual(file["X"].dtype, numpy.float32)
                row = 0
                for label, name in enumerate(names):
                    for snr in snrs:
                        for frame in content[name, snr]:
                            numpy.testing.assert_array_equal(file["X"][row], frame.T)
                            numpy.testing.assert_array_equal(file["Y"][row], numpy.eye(3)[label])
                            self.assertEqual(file["Z"][row, 0], snr)
                            row += 1

    def test_amc_data_reads_it(self):
        self.write(small_set())
        subprocess.run([sys.executable, SCRIPT, self.pickle, self.output], check=True, capture_output=True)
        shown = subprocess.run([AMC_DATA, "inspect", self.output], capture_output=True, text=True)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn(f"27 frames of {LENGTH} samples", shown.stdout)
        self.assertIn("3 classes: 8PSK, AM-SSB, WBFM", shown.stdout)
        self.assertIn("3 SNRs in dB: -20, 0, 18", shown.stdout)
        self.assertIn("9 pairs of class and SNR occur, with 3 to 3 frames each", shown.stdout)

    def test_a_pickle_that_runs_programs_is_refused(self):
        class Attack:
            def __reduce__(self):
                return os.system, (f"touch {self.folder}/touched",)

        attack = Attack()
        attack.folder = self.folder.name
        for content in (attack, {("QPSK", 0): attack}):
            self.write(content, pickle.Pickler)
            self.expect_refused("system, which is not allowed")
        self.pickle.write_bytes(b"cbuiltins\neval\n(S'1'\ntR.")
        self.expect_refused("builtins.eval")

    def test_malformed_sets_are_refused(self):
        def with_change(change):
            content = small_set()
            change(content)
            return content

        def put_nan(content):
            content["8PSK", 0][2, 1, 5] = numpy.nan

        def put_huge(content):
            content["8PSK", 0] = content["8PSK", 0].astype(numpy.float64) * 1e300

        cases = [
            (with_change(put_nan), "('8PSK', 0), frame 2: a sample is NaN"),
            (with_change(put_huge), "('8PSK', 0), frame 0: a sample is NaN or infinite"),
            (with_change(lambda content: content.pop(("WBFM", 18))), "no frames for ('WBFM', 18)"),
            (with_change(lambda content: content.update({("WBFM", 18): numpy.zeros((3, 2, 8), "f4")})), "different lengths"),
            (with_change(lambda content: content.update({("WBFM", 18): numpy.zeros((3, 8), "f4")})), "has the shape (3, 8)"),
            (with_change(lambda content: content.update({("WBFM", 18): numpy.zeros((0, 2, 16), "f4")})), "has the shape"),
            (with_change(lambda content: content.update({("WBFM", 18): numpy.zeros((3, 2, 16), "O")})), "no array of floats"),
            (with_change(lambda content: content.update({("A,B", 18): numpy.zeros((3, 2, 16), "f4")})), "cannot name a class"),
            (with_change(lambda content: content.update({("WBFM", 999): numpy.zeros((3, 2, 16), "f4")})), "outside [-200"),
            (with_change(lambda content: content.update({"WBFM": numpy.zeros((3, 2, 16), "f4")})), "no pair of a modulation"),
            ({}, "no dictionary"),
            ([1, 2], "no dictionary"),
        ]
        for content, part in cases:
            with self.subTest(part):
                self.write(content)
                self.expect_refused(part)

    def test_damaged_pickles_are_refused(self):
        self.write(small_set())
        whole = self.pickle.read_bytes()
        for damaged in (b"", b"\x00", whole[:-1], whole[: len(whole) // 2], b"\x89HDF\r\n\x1a\n" + whole):
            self.pickle.write_bytes(damaged)
            self.expect_refused("damaged")

    def test_a_missing_file_is_named(self):
        result = subprocess.run([sys.executable, SCRIPT, self.pickle, self.output], capture_output=True, text=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("in.pkl", result.stderr)
        self.assertNotIn("Traceback", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
