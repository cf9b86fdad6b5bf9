#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compress/compressor_state.h"
#include "compress/converted_graph.h"
#include "podaq/core/error.h"

namespace podaq {
// The network holds its average while this lives.
class Compressor::AverageInPlace {
 public:
  explicit AverageInPlace(State& state) : state_(state), swaps_(!state.average_is_swapped_in) {
    if (swaps_) state_.swap_average();
  }
  AverageInPlace(const AverageInPlace&) = delete;
  AverageInPlace& operator=(const AverageInPlace&) = delete;
  ~AverageInPlace() {
    if (swaps_) state_.swap_average();
  }

 private:
  State& state_;
  bool swaps_;
};

void Compressor::State::require_fixed_masks() const {
  if (masks_are_fixed()) return;
  double fixed_from = compress_detail::epochs_until_end(recipe.epochs, Stage::prune);
  if (recipe.prune->fold_rounded_zeros)
    fixed_from = compress_detail::epochs_until_end(recipe.epochs, *recipe.prune->fold_rounded_zeros);
  if (!is_attached())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("convert: the recipe prunes, but training has not begun; call attach and train: masks are "
                            "fixed from epoch {:.6g} on",
                            fixed_from));
  const double done =
      static_cast<double>(epoch) + static_cast<double>(steps_in_epoch) / static_cast<double>(steps_per_epoch);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("convert: training is in stage '{}', at epoch {:.6g}; masks are fixed from epoch {:.6g} on: "
                          "train until then, or use a recipe without [prune]",
                          name_of(stage()), done, fixed_from));
}

Graph Compressor::convert(const ConvertOptions& options) const {
  State& state = *state_;
  state.require_fixed_masks();
  if (state.quantizer && !state.is_quantizing() && epochs() > 0)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("convert: the recipe quantizes, but training is still in stage '{}'; train on, "
                            "call calibrate, or use a recipe without [quantize]",
                            name_of(stage())));
  if (state.goldbarg && !state.goldbarg->has_begun())
    throw Error(ErrorCode::invalid_argument,
                "convert: the stage goldbarg has not begun; call attach and train, or use a recipe without [goldbarg]");
  if (!state.idle_quantizers.empty())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("convert: trained without their quantizers: {}; do not remove the network's hooks, or keep "
                            "these layers float (quantize.float_layers)",
                            fmt::join(state.idle_quantizers, ", ")));
  const AverageInPlace average(state);
  // Weights may have been written since the last step, for instance by restoring an earlier copy.
  if (state.pruner) apply_masks(*state.model, state.pruner->masks());

  return compress_detail::converted_graph(*state.model, state.recipe,
                                          {.quantizer = state.quantizer ? &*state.quantizer : nullptr,
                                           .goldbarg = state.goldbarg ? &*state.goldbarg : nullptr},
                                          options);
}

}  // namespace podaq
