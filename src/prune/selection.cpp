#include "podaq/prune/selection.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "prune/weight_rows.h"

namespace podaq {

std::int64_t zeros_at(double sparsity, std::int64_t units, std::int64_t layers) {
  const auto share = static_cast<std::int64_t>(std::floor(static_cast<double>(units) * sparsity + 0.5));
  return std::clamp<std::int64_t>(share, 0, std::max<std::int64_t>(units - layers, 0));
}

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

// Integers in the numbers' order; -0 comes before +0.
std::uint64_t ordered_key(double number) {
  const auto bits = std::bit_cast<std::uint64_t>(number);
  constexpr std::uint64_t sign = std::uint64_t{1} << 63;
  return bits ^ ((bits >> 63) * ~std::uint64_t{0} | sign);
}

// The number at place `count`, from 1, in sorted order. A histogram of the leading bits leaves few numbers to
// partition; partitioning all of them takes several times as long, for the branches that no CPU can predict.
double nth_lowest(std::span<const double> numbers, std::int64_t count) {
  constexpr int leading_bits = 16;
  const auto bin_of = [](double number) { return ordered_key(number) >> (64 - leading_bits); };
  std::vector<std::uint32_t> histogram(std::size_t{1} << leading_bits);
  for (const double number : numbers) ++histogram[bin_of(number)];
  std::size_t bin = 0;
  for (; count > histogram[bin]; ++bin) count -= histogram[bin];
  std::vector<double> same_bin;
  same_bin.reserve(histogram[bin]);
  std::ranges::copy_if(numbers, std::back_inserter(same_bin), [&](double number) { return bin_of(number) == bin; });
  std::ranges::nth_element(same_bin, same_bin.begin() + (count - 1));
  return same_bin[static_cast<std::size_t>(count - 1)];
}

// Rows of scores as doubles, one after another, and which of them are chosen.
class Candidates {
 public:
  void append(const torch::Tensor& row) {
    const torch::Tensor plain = row.detach().to(torch::kCPU, torch::kDouble).contiguous();
    const double* begin = plain.const_data_ptr<double>();
    scores_.insert(scores_.end(), begin, begin + plain.numel());
    lengths_.push_back(plain.numel());
  }

  // Of several highest of the last row the last is kept, since ties prune the lower index first.
  void spare_highest_of_last_row() {
    const auto row = std::span(scores_).last(static_cast<std::size_t>(lengths_.back()));
    if (row.empty()) return;
    const auto highest = std::max_element(row.rbegin(), row.rend());
    *highest = never;
  }

  [[nodiscard]] std::vector<torch::Tensor> lowest(std::int64_t count) const {
    const std::int64_t open = prune_detail::count_below(scores_.data(), std::ssize(scores_), never);
    if (count < 0 || count > open)
      throw Error(ErrorCode::invalid_argument, concat("pruning: zeros is ", count, ", must lie in [0, ", open, "]"));
    if (count == 0) return rows_below(-never, 0);
    const double threshold = nth_lowest(scores_, count);
    const std::int64_t below = prune_detail::count_below(scores_.data(), std::ssize(scores_), threshold);
    return rows_below(threshold, count - below);
  }

 private:
  // True below the threshold, and at the first `ties` places that equal it.
  [[nodiscard]] std::vector<torch::Tensor> rows_below(double threshold, std::int64_t ties) const {
    std::vector<torch::Tensor> rows;
    const double* score = scores_.data();
    for (const std::int64_t length : lengths_) {
      torch::Tensor row = torch::empty({length}, torch::kBool);
      bool* chosen = row.mutable_data_ptr<bool>();
      prune_detail::mark_below(score, length, threshold, chosen);
      for (std::int64_t i = 0; i < length && ties > 0; ++i)
        if (score[i] == threshold) {
          chosen[i] = true;
          --ties;
        }
      score += length;
      rows.push_back(std::move(row));
    }
    return rows;
  }

  std::vector<double> scores_;
  std::vector<std::int64_t> lengths_;
};

}  // namespace

torch::Tensor with_pruned_first(const torch::Tensor& scores, const torch::Tensor& pruned) {
  torch::Tensor row =
      scores.detach().to(torch::kCPU, torch::kDouble, /*non_blocking=*/false, /*copy=*/true).contiguous();
  prune_detail::make_finite(row.mutable_data_ptr<double>(), row.numel());
  if (!pruned.defined()) return row;
  const torch::Tensor mask = pruned.to(torch::kCPU).contiguous();
  prune_detail::write_where(mask.const_data_ptr<bool>(), -never, row.mutable_data_ptr<double>(), row.numel());
  return row;
}

torch::Tensor lowest(const torch::Tensor& scores, std::int64_t count) {
  Candidates candidates;
  candidates.append(scores);
  return candidates.lowest(count).front();
}

std::vector<torch::Tensor> lowest_units(std::span<const torch::Tensor> scores, std::int64_t zeros) {
  Candidates candidates;
  for (const torch::Tensor& row : scores) {
    candidates.append(row);
    candidates.spare_highest_of_last_row();
  }
  return candidates.lowest(zeros);
}

}  // namespace podaq
