#!/usr/bin/env python3
"""Checks that podaq's includes follow the table of rooms in docs/design.md.

A room may include its own headers, those of the rooms that the table's column "may use" names, and those of the rooms
that these may use. Rooms of the libraries `runtime` and `tools` include nothing of LibTorch; rooms of `runtime` no
streams and no library but those the design allows them. A source that bears a public header's name includes that header
first, so that compiling the source shows that the header needs nothing before it.
"""

import pathlib
import re
import sys

LIBTORCH = ("torch/", "ATen/", "c10/", "caffe2/")
NOT_IN_RUNTIME = ("fmt/", "Eigen/", "nlohmann/", "toml++/", "CLI/", "iostream", "sstream", "fstream", "ostream", "istream",
                  "iomanip", "strstream", "syncstream")
# Headers that gather rooms, and the room whose rights they have.
UMBRELLAS = {"podaq.h": "cli", "runtime.h": "runtime", "c_api.h": "runtime"}
INCLUDE = re.compile(r'^\s*#\s*(?:include|import)\s*([<"])([^>"]+)[>"]', re.MULTILINE)
ROW = re.compile(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|([^|]*)\|\s*$", re.MULTILINE)


def read_rooms(design):
    """room -> (rooms it may include, itself among them; its library), from the design's table."""
    direct = {}
    library = {}
    for room, may_use, room_library in ROW.findall(design):
        names = re.findall(r"\w+", may_use.replace("`", ""))
        direct[room] = names
        library[room] = room_library.strip()
    if "core" not in direct or "training" not in direct:
        raise SystemExit("includes.py: docs/design.md has no table of rooms any more")

    def reach(room, seen):
        if room not in seen:
            seen.add(room)
            for name in direct[room]:
                for other in direct if name == "all" else [name]:
                    reach(other, seen)
        return seen

    return {room: (reach(room, set()), library[room]) for room in direct}


def sources(root):
    """Pairs of a library source and the path it is included by."""
    for base in (root / "include" / "podaq", root / "src"):
        for path in sorted(base.rglob("*")):
            if path.suffix in (".h", ".cpp", ".cu", ".cuh"):
                yield path, path.relative_to(base)


def room_of(relative):
    """The room of a path below include/podaq or src."""
    parts = pathlib.PurePosixPath(relative).parts
    return UMBRELLAS.get(parts[0]) if len(parts) == 1 else parts[0]


def included_room(root, path, quoted, name, rooms):
    """The room that an include reaches into, or None if it is not podaq's."""
    if name.startswith("podaq/"):
        return room_of(name[len("podaq/"):]) or name
    if quoted and (path.parent / name).is_file() and (root / "src") in path.parents:
        return room_of((path.parent / name).resolve().relative_to(root / "src"))
    first = name.split("/", 1)[0]
    return first if quoted and "/" in name and first in rooms else None


def violations(root):
    """The faults, one line each."""
    root = root.resolve()
    rooms = read_rooms((root / "docs" / "design.md").read_text(encoding="utf-8"))
    for path, relative in sources(root):
        where = path.relative_to(root)
        room = room_of(relative)
        if room not in rooms:
            yield f"{where}: '{relative.parts[0]}' is no room of docs/design.md"
            continue
        allowed, library = rooms[room]
        includes = INCLUDE.findall(path.read_text(encoding="utf-8"))
        own_header = "podaq" / relative.with_suffix(".h")
        if path.suffix == ".cpp" and (root / "include" / own_header).is_file():
            if not includes or includes[0][1] != own_header.as_posix():
                yield f"{where}: does not include {own_header.as_posix()} first"
        for bracket, name in includes:
            target = included_room(root, path, bracket == '"', name, rooms)
            if target is not None and target not in allowed:
                yield f"{where}: room {room} may not include {name}"
            if library in ("runtime", "tools") and name.startswith(LIBTORCH):
                yield f"{where}: room {room} is without LibTorch, but includes {name}"
            if library == "runtime" and name.startswith(NOT_IN_RUNTIME):
                yield f"{where}: room {room} belongs to the runtime, which does not use {name}"


def main():
    found = list(violations(pathlib.Path(sys.argv[1])))
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
