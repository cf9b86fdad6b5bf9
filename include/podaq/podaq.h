#pragma once

// All that a training program needs: capture a module, compress it while it trains, write the file; and run it.
#include "podaq/capture/capture.h"          // IWYU pragma: export
#include "podaq/compress/compressor.h"      // IWYU pragma: export
#include "podaq/compress/recipe.h"          // IWYU pragma: export
#include "podaq/compress/resolve_auto.h"    // IWYU pragma: export
#include "podaq/runtime.h"                  // IWYU pragma: export
#include "podaq/training/allocator.h"       // IWYU pragma: export
#include "podaq/training/graph_module.h"    // IWYU pragma: export
#include "podaq/training/random_sampler.h"  // IWYU pragma: export
