#include "podaq/prune/distribution.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "podaq/prune/selection.h"

namespace podaq {
namespace {

// The share that a layer keeps, up to the factor that all layers have in common.
double raw_density(const LayerExtent& layer) {
  double sum = 0;
  double product = 1;
  for (const std::int64_t size : layer.shape) {
    sum += static_cast<double>(size);
    product *= static_cast<double>(size);
  }
  return product > 0 ? sum / product : 0;
}

// The units that each layer keeps, as real numbers with the sum `kept`.
std::vector<double> kept_shares(std::span<const LayerExtent> layers, double kept) {
  std::vector<bool> is_dense(layers.size(), false);
  std::vector<double> shares(layers.size());
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    double left = kept;
    double raw = 0;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto units = static_cast<double>(layers[i].units);
      if (is_dense[i])
        left -= units;
      else
        raw += units * raw_density(layers[i]);
    }
    const double factor = raw > 0 ? left / raw : 0;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto units = static_cast<double>(layers[i].units);
      if (!is_dense[i] && factor * raw_density(layers[i]) > 1) has_changed = is_dense[i] = true;
      shares[i] = is_dense[i] ? units : units * factor * raw_density(layers[i]);
    }
  }
  return shares;
}

}  // namespace

std::vector<std::int64_t> erk_zeros(std::span<const LayerExtent> layers, double sparsity) {
  std::int64_t units = 0;
  std::int64_t layers_with_units = 0;
  for (const LayerExtent& layer : layers) {
    units += layer.units;
    layers_with_units += layer.units > 0 ? 1 : 0;
  }
  const std::int64_t total = zeros_at(sparsity, units, layers_with_units);
  const std::vector<double> kept = kept_shares(layers, static_cast<double>(units - total));

  std::vector<std::int64_t> zeros;
  std::vector<double> remainders;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const double share = std::max(static_cast<double>(layers[i].units) - kept[i], 0.0);
    const auto most = std::max<std::int64_t>(layers[i].units - 1, 0);
    zeros.push_back(std::min(static_cast<std::int64_t>(std::floor(share)), most));
    remainders.push_back(share - static_cast<double>(zeros.back()));
  }
  std::vector<std::size_t> by_remainder(layers.size());
  std::iota(by_remainder.begin(), by_remainder.end(), std::size_t{0});
  std::ranges::stable_sort(by_remainder, std::greater(), [&](std::size_t i) { return remainders[i]; });

  std::int64_t missing = total - std::accumulate(zeros.begin(), zeros.end(), std::int64_t{0});
  while (missing != 0)  // more than one round where layers are full
    for (const std::size_t i : by_remainder) {
      const std::int64_t step = missing > 0 ? 1 : -1;
      const bool has_room = missing > 0 ? zeros[i] < layers[i].units - 1 : zeros[i] > 0;
      if (missing == 0 || !has_room) continue;
      zeros[i] += step;
      missing -= step;
    }
  return zeros;
}

}  // namespace podaq
