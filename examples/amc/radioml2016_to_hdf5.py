#!/usr/bin/env python3
"""Turns RadioML 2016.10A or 2016.10B, Python pickles, into an HDF5 file of the layout of RadioML 2018.01A.

  radioml2016_to_hdf5.py RML2016.10a_dict.pkl OUT.hdf5
  radioml2016_to_hdf5.py RML2016.10b.dat OUT.hdf5

Needs NumPy and h5py (Debian: apt-get install python3-h5py; elsewhere: pip install h5py), and memory for the pickle twice
over. Frames stay as they are. Rows are ordered by class (names sorted), then SNR, then as in
the pickle; beside X, Y and Z the file names its `classes` and its `snrs`. It appears whole or not at all.

A pickle is a program. This reader lets it build dictionaries, tuples, strings, numbers and arrays of numbers, and
nothing else.
"""

import argparse
import os
import pickle
import sys
import tempfile

import numpy

ALLOWED = {
    ("numpy", "ndarray"): lambda: numpy.ndarray,
    ("numpy", "dtype"): lambda: numpy.dtype,
    ("_codecs", "encode"): lambda: encode_latin1,
}
for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
    ALLOWED[module, "_reconstruct"] = lambda: numpy.ndarray.__reduce__(numpy.empty(0))[0]
LARGEST_FRAME = 1 << 20


class Refused(Exception):
    """What is wrong with the input, for the user."""


def encode_latin1(text, encoding):
    """What Python 3 writes for bytes under protocols below 3."""
    if encoding != "latin1":
        raise Refused(f"the pickle encodes bytes as '{encoding}', which is not allowed")
    return text.encode("latin1")


class RestrictedUnpickler(pickle.Unpickler):
    def find_class(self, module, name):
        if (module, name) not in ALLOWED:
            raise Refused(f"the pickle asks for {module}.{name}, which is not allowed: it is no RadioML file")
        return ALLOWED[module, name]()


def read_pickle(path):
    """{(modulation, SNR in dB): frames (n, 2, L)}, checked."""
    with open(path, "rb") as file:
        try:
            content = RestrictedUnpickler(file, encoding="latin1").load()
        except Refused:
            raise
        except MemoryError:
            raise Refused("the pickle announces more than memory can hold") from None
        except Exception as error:  # whatever a malformed pickle leads to
            raise Refused(f"no pickle, or a damaged one ({error})") from None
    if not isinstance(content, dict) or not content:
        raise Refused("the pickle holds no dictionary of frames")
    lengths = set()
    for key, frames in content.items():
        check_key(key)
        check_frames(key, frames)
        lengths.add(frames.shape[2])
    if len(lengths) > 1:
        raise Refused(f"frames have different lengths: {sorted(lengths)}")
    return content


def check_key(key):
    is_key = isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str) and type(key[1]) is int
    if not is_key:
        raise Refused(f"the key {key!r} is no pair of a modulation and a whole SNR")
    name, snr = key
    if not 0 < len(name) <= 64 or "," in name or not (name.isascii() and name.isprintable()):
        raise Refused(f"{name!r} cannot name a class: 1 to 64 printable ASCII characters without a comma")
    if not -200 <= snr <= 200:
        raise Refused(f"the SNR of {key!r} is outside [-200, 200] dB")


def check_frames(key, frames):
    if not isinstance(frames, numpy.ndarray) or frames.dtype.kind != "f":
        raise Refused(f"{key!r} holds no array of floats")
    if frames.ndim != 3 or frames.shape[0] < 1 or frames.shape[1] != 2 or not 1 <= frames.shape[2] <= LARGEST_FRAME:
        raise Refused(f"{key!r} has the shape {frames.shape}; (frames, 2, samples) is needed")
    with numpy.errstate(over="ignore"):
        bad = ~numpy.isfinite(frames.astype(numpy.float32)).all(axis=(1, 2))
    if bad.any():
        raise Refused(f"{key!r}, frame {bad.argmax()}: a sample is NaN or infinite as a 32-bit float")


def write_hdf5(path, content):
    """Writes the file under another name, and renames it when it is whole."""
    import h5py

    names = sorted({name for name, _ in content})
    snrs = sorted({snr for _, snr in content})
    missing = [(name, snr) for name in names for snr in snrs if (name, snr) not in content]
    if missing:
        raise Refused(f"there are no frames for {missing[0]!r}, though others have that class and that SNR")
    rows = sum(len(frames) for frames in content.values())
    length = next(iter(content.values())).shape[2]
    folder = os.path.dirname(os.path.abspath(path))
    descriptor, temporary = tempfile.mkstemp(prefix=".podaq-", suffix=".tmp", dir=folder)
    try:
        with h5py.File(temporary, "w") as file:
            samples = file.create_dataset("X", (rows, length, 2), dtype="<f4")
            one_hot = file.create_dataset("Y", (rows, len(names)), dtype="<i8")
            snr_of_row = file.create_dataset("Z", (rows, 1), dtype="<i8")
            file.create_dataset("classes", data=numpy.array([name.encode("ascii") for name in names], dtype="S"))
            file.create_dataset("snrs", data=numpy.array(snrs, dtype="<i4"))
            begin = 0
            for label, name in enumerate(names):
                for snr in snrs:
                    frames = content[name, snr]
                    end = begin + len(frames)
                    samples[begin:end] = frames.transpose(0, 2, 1)
                    one_hot[begin:end] = numpy.eye(len(names), dtype="<i8")[label]
                    snr_of_row[begin:end] = snr
                    begin = end
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(descriptor, 0o666 & ~mask)
        os.fsync(descriptor)
        os.replace(temporary, path)
        sync_folder(folder)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
    finally:
        os.close(descriptor)
    return rows, len(names), len(snrs), length


def sync_folder(folder):
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pickle", help="RML2016.10a_dict.pkl or RML2016.10b.dat")
    parser.add_argument("output", help="the HDF5 file to write")
    arguments = parser.parse_args()
    try:
        rows, classes, snrs, length = write_hdf5(arguments.output, read_pickle(arguments.pickle))
    except ImportError:
        sys.exit("radioml2016_to_hdf5: h5py is missing. On Debian: apt-get install python3-h5py; elsewhere: pip install h5py")
    except Refused as error:
        sys.exit(f"radioml2016_to_hdf5: '{arguments.pickle}': {error}")
    except OSError as error:
        sys.exit(f"radioml2016_to_hdf5: {error}")
    print(f"{arguments.output}: {rows} frames of {length} samples, {classes} classes, {snrs} SNRs")


if __name__ == "__main__":
    main()
