#pragma once

#include <liquid/liquid.h>

#include <complex>  // must come before liquid.h, which then uses std::complex
#include <memory>
#include <type_traits>

namespace podaq::amc {

/// Destroys a liquid-dsp object with the function of its type.
template <auto destroy>
struct LiquidDeleter {
  template <typename Object>
  void operator()(Object* object) const {
    destroy(object);
  }
};

/// Owns a liquid-dsp object, say `LiquidHandle<modemcf, modemcf_destroy>`.
template <typename Handle, auto destroy>
using LiquidHandle = std::unique_ptr<std::remove_pointer_t<Handle>, LiquidDeleter<destroy>>;

}  // namespace podaq::amc
