#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>

#include "podaq/compress/recipe.h"

// How recipes spell choices; reading and writing share these lists.
namespace podaq::compress_detail {

template <typename Choice>
inline constexpr std::array<std::pair<std::string_view, Choice>, 0> words_for = {};

template <>
inline constexpr std::array words_for<WeightScale> = {
    std::pair<std::string_view, WeightScale>{"largest", WeightScale::largest},
    std::pair<std::string_view, WeightScale>{"least_squares", WeightScale::least_squares},
    std::pair<std::string_view, WeightScale>{"learned", WeightScale::learned}};

template <>
inline constexpr std::array words_for<WeightGranularity> = {
    std::pair<std::string_view, WeightGranularity>{"channel", WeightGranularity::channel},
    std::pair<std::string_view, WeightGranularity>{"tensor", WeightGranularity::tensor}};

template <>
inline constexpr std::array words_for<ActivationScale> = {
    std::pair<std::string_view, ActivationScale>{"observed", ActivationScale::observed},
    std::pair<std::string_view, ActivationScale>{"learned", ActivationScale::learned}};

template <>
inline constexpr std::array words_for<ThresholdCodes> = {
    std::pair<std::string_view, ThresholdCodes>{"verbatim", ThresholdCodes::verbatim},
    std::pair<std::string_view, ThresholdCodes>{"clamped", ThresholdCodes::clamped}};

template <typename Choice>
[[nodiscard]] constexpr std::string_view word_of(Choice choice) {
  for (const auto& [word, value] : words_for<Choice>)
    if (value == choice) return word;
  return {};
}

}  // namespace podaq::compress_detail
