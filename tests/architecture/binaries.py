#!/usr/bin/env python3
"""Checks what podaq's libraries, programs and objects hold.

  binaries.py without-libtorch FILE        a library or program that needs nothing of LibTorch
  binaries.py private-kernels OBJECTS      objects of one instruction set that offer the linker no shared code
  binaries.py static-size PROGRAM BYTES    a static program no larger than that
  binaries.py stripped-size FILE BYTES     a program or library no larger than that without its symbols
  binaries.py c-symbols FILE HEADER NAME   a shared library of that name that offers the C header's functions, each with
                                           a version, and nothing else
"""

import pathlib
import re
import subprocess
import sys
import tempfile

LIBTORCH_NAMES = (" at::", " c10::", " torch::")
ISA_FOLDERS = ("/kernels/avx2/", "/kernels/avxvnni/", "/kernels/avx512/", "/kernels/amx/")


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def needed_libraries(path):
    """The shared libraries that a program names."""
    return [line.split("[")[1].split("]")[0] for line in output_of("readelf", "-d", path).splitlines() if "(NEEDED)" in line]


def without_libtorch(path):
    if path.endswith(".a"):
        undefined = output_of("nm", "--demangle", "--undefined-only", path).splitlines()
        if not undefined:
            yield f"{path}: nm lists no symbols"
        yield from (f"{path} refers to {line.strip()}" for line in undefined if any(name in line for name in LIBTORCH_NAMES))
    else:
        libraries = needed_libraries(path)
        if not libraries:
            yield f"{path}: readelf lists no libraries"
        yield from (f"{path} links {name}" for name in libraries if "torch" in name or "c10" in name)


def private_kernels(objects):
    """A weak symbol may be the copy that the linker keeps for everyone, wider instructions included."""
    kernels = [path for path in objects.split(";") if any(folder in path for folder in ISA_FOLDERS)]
    if not kernels:
        yield f"none of the objects lies in {' or '.join(ISA_FOLDERS)}"
    for path in kernels:
        for line in output_of("nm", "--demangle", "--defined-only", path).splitlines():
            _, kind, name = line.split(maxsplit=2)
            if kind in "WVu" and not name.startswith("DW.ref."):  # DW.ref.*: a pointer for exception tables, no code
                yield f"{pathlib.Path(path).name}: weak symbol {name}"


def static_size(path, most):
    if needed_libraries(path):
        yield f"{path} is not static"
    size = pathlib.Path(path).stat().st_size
    print(f"{size} bytes")
    if size > int(most):
        yield f"{path} has {size} bytes, more than {most}"


def stripped_size(path, most):
    with tempfile.TemporaryDirectory() as folder:
        stripped = pathlib.Path(folder) / "stripped"
        output_of("strip", "-o", stripped, path)
        size = stripped.stat().st_size
    print(f"{size} bytes")
    if size > int(most):
        yield f"{path} has {size} bytes without symbols, more than {most}"


def c_symbols(path, header, name):
    code = re.sub(r"//.*", "", pathlib.Path(header).read_text(encoding="utf-8"))
    declared = set(re.findall(r"\b(podaq_\w+)\(", code))
    if not declared:
        yield f"{header} declares no function"
    offered = set()
    for line in output_of("nm", "--dynamic", "--defined-only", "--with-symbol-versions", path).splitlines():
        _, kind, symbol = line.split(maxsplit=2)
        symbol, _, version = symbol.partition("@@")
        if kind == "A" and symbol.startswith("PODAQ_"):  # the version itself
            continue
        offered.add(symbol)
        if kind != "T" or symbol not in declared:
            yield f"{path} offers {symbol}, which is no function of {header}"
        if not re.fullmatch(r"PODAQ_\d+\.\d+", version):
            yield f"{path}: {symbol} has no version"
    yield from (f"{path} lacks {symbol}" for symbol in sorted(declared - offered))
    if f"soname: [{name}]" not in output_of("readelf", "-d", path):
        yield f"{path} is not named {name}"


CHECKS = {"without-libtorch": without_libtorch, "private-kernels": private_kernels, "static-size": static_size,
          "stripped-size": stripped_size, "c-symbols": c_symbols}


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in CHECKS:
        raise SystemExit(__doc__)
    found = list(CHECKS[sys.argv[1]](*sys.argv[2:]))
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
