#pragma once

// All that a program needs to run a .podaq file. No LibTorch.
#include "podaq/core/error.h"      // IWYU pragma: export
#include "podaq/format/cache.h"    // IWYU pragma: export
#include "podaq/format/file.h"     // IWYU pragma: export
#include "podaq/runtime/model.h"   // IWYU pragma: export
#include "podaq/runtime/runner.h"  // IWYU pragma: export
