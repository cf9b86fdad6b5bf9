#!/usr/bin/env python3
"""The include checker finds what it is there to find."""

import pathlib
import tempfile
import unittest

import includes

DESIGN = """
| room | what lives in it | may use | library |
|---|---|---|---|
| `core` | errors | – | runtime |
| `graph` | graph | core | runtime |
| `data` | data sets | core | tools |
| `training` | modules | graph | podaq |
| `cli` | programs | all | – |
"""


def check(path, *lines, public_header=None):
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "docs").mkdir()
        (root / "docs" / "design.md").write_text(DESIGN, encoding="utf-8")
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text("\n".join(lines), encoding="utf-8")
        if public_header:
            (root / public_header).parent.mkdir(parents=True)
            (root / public_header).touch()
        return list(includes.violations(root))


class IncludesTest(unittest.TestCase):
    def test_allowed_rooms_pass(self):
        self.assertEqual(check("src/training/a.cpp", '#include "podaq/core/error.h"', '#include "graph/rules.h"',
                               "#include <torch/torch.h>", "#include <sstream>", "#include <zlib.h>"), [])
        self.assertEqual(check("src/cli/podaq/main.cpp", '#include "podaq/training/x.h"'), [])

    def test_a_room_above_is_refused(self):
        self.assertEqual(len(check("src/core/a.cpp", '#include "podaq/graph/graph.h"')), 1)
        self.assertEqual(len(check("include/podaq/data/a.h", "#  include <podaq/graph/graph.h>")), 1)
        self.assertEqual(len(check("src/graph/a.cpp", '#include "data/gzip.h"')), 1)
        self.assertEqual(len(check("src/graph/a.cpp", '#include "podaq/podaq.h"')), 1)

    def test_libtorch_stays_in_training(self):
        for header in ("torch/torch.h", "ATen/ATen.h", "c10/util/Exception.h"):
            self.assertEqual(len(check("src/graph/a.cpp", f"#include <{header}>")), 1)
            self.assertEqual(len(check("src/data/a.cpp", f"#include <{header}>")), 1)

    def test_the_runtime_has_no_streams(self):
        for header in ("iostream", "sstream", "fmt/format.h"):
            self.assertEqual(len(check("src/graph/a.cpp", f"#include <{header}>")), 1)
            self.assertEqual(check("src/data/a.cpp", f"#include <{header}>"), [])

    def test_a_source_includes_its_own_header_first(self):
        own = '#include "podaq/core/a.h"'
        other = '#include "podaq/core/b.h"'
        header = "include/podaq/core/a.h"
        self.assertEqual(check("src/core/a.cpp", own, other, public_header=header), [])
        self.assertEqual(len(check("src/core/a.cpp", other, own, public_header=header)), 1)
        self.assertEqual(len(check("src/core/a.cpp", "", public_header=header)), 1)
        self.assertEqual(check("src/core/c.cpp", other, public_header=header), [])

    def test_an_unknown_room_is_refused(self):
        self.assertEqual(len(check("src/misc/a.cpp", "")), 1)


if __name__ == "__main__":
    unittest.main()
