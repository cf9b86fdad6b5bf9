#include "runtime/nonnegative_fit.h"

#include <algorithm>
#include <cmath>

namespace podaq::runtime_detail {

namespace {

// The normal equations, columns scaled to length 1: a coefficient's own unit must not decide how exactly it is found.
struct NormalEquations {
  std::size_t size = 0;
  std::vector<double> matrix;  ///< Row-major.
  std::vector<double> right;
  std::vector<double> scales;  ///< Of each column; 0: no feature touches it.

  [[nodiscard]] double at(std::size_t row, std::size_t column) const { return matrix[row * size + column]; }
};

NormalEquations normal_equations(std::span<const Observation> observations) {
  NormalEquations equations;
  equations.size = observations.empty() ? 0 : observations[0].features.size();
  const std::size_t n = equations.size;
  equations.matrix.assign(n * n, 0.0);
  equations.right.assign(n, 0.0);
  equations.scales.assign(n, 0.0);
  for (const Observation& o : observations)
    for (std::size_t i = 0; i < n; ++i) equations.scales[i] += std::pow(o.weight * o.features[i], 2);
  for (double& scale : equations.scales) scale = scale > 0.0 ? 1.0 / std::sqrt(scale) : 0.0;
  std::vector<double> row(n);
  for (const Observation& o : observations) {
    for (std::size_t i = 0; i < n; ++i) row[i] = o.weight * o.features[i] * equations.scales[i];
    for (std::size_t i = 0; i < n; ++i) {
      equations.right[i] += row[i] * o.weight * o.target;
      for (std::size_t j = 0; j < n; ++j) equations.matrix[i * n + j] += row[i] * row[j];
    }
  }
  return equations;
}

// Solves the equations of the free coefficients by Cholesky's decomposition; the others are 0.
std::vector<double> solve_free(const NormalEquations& equations, const std::vector<std::size_t>& free) {
  constexpr double least_pivot = 1e-13;  // a column that others span takes no part
  const std::size_t n = free.size();
  std::vector<double> lower(n * n, 0.0);
  std::vector<double> x(n, 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = equations.at(free[i], free[j]);
      for (std::size_t k = 0; k < j; ++k) sum -= lower[i * n + k] * lower[j * n + k];
      if (i == j)
        lower[i * n + i] = sum > least_pivot ? std::sqrt(sum) : 0.0;
      else
        lower[i * n + j] = lower[j * n + j] > 0.0 ? sum / lower[j * n + j] : 0.0;
    }
    double sum = equations.right[free[i]];
    for (std::size_t k = 0; k < i; ++k) sum -= lower[i * n + k] * x[k];
    x[i] = lower[i * n + i] > 0.0 ? sum / lower[i * n + i] : 0.0;
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) x[i] -= lower[k * n + i] * x[k];
    x[i] = lower[i * n + i] > 0.0 ? x[i] / lower[i * n + i] : 0.0;
  }
  std::vector<double> solution(equations.size, 0.0);
  for (std::size_t i = 0; i < n; ++i) solution[free[i]] = x[i];
  return solution;
}

// The coefficient, none of the free ones, whose rise lowers the error fastest; the size where none does.
std::size_t steepest(const NormalEquations& equations, const std::vector<double>& x,
                     const std::vector<std::size_t>& free) {
  constexpr double least_gain = 1e-10;
  std::size_t best = equations.size;
  double gain = least_gain * *std::max_element(equations.right.begin(), equations.right.end());
  for (std::size_t i = 0; i < equations.size; ++i) {
    if (equations.scales[i] == 0.0 || std::find(free.begin(), free.end(), i) != free.end()) continue;
    double slope = equations.right[i];
    for (std::size_t j = 0; j < equations.size; ++j) slope -= equations.at(i, j) * x[j];
    if (slope <= gain) continue;
    best = i;
    gain = slope;
  }
  return best;
}

// Moves x towards the solution for the free coefficients, as far as all stay >= 0; the first to reach 0 is free no
// more.
void approach(const NormalEquations& equations, std::vector<double>& x, std::vector<std::size_t>& free) {
  while (!free.empty()) {
    const std::vector<double> target = solve_free(equations, free);
    double step = 1.0;
    std::size_t first = equations.size;
    for (const std::size_t i : free) {
      if (target[i] > 0.0) continue;
      const double reach = x[i] / (x[i] - target[i] + 1e-300);
      if (first != equations.size && reach >= step) continue;
      step = reach;
      first = i;
    }
    for (const std::size_t i : free) x[i] += step * (target[i] - x[i]);
    if (first == equations.size) return;
    x[first] = 0.0;
    std::erase(free, first);
  }
}

}  // namespace

std::vector<double> fit_nonnegative(std::span<const Observation> observations) {
  const NormalEquations equations = normal_equations(observations);
  std::vector<double> x(equations.size, 0.0);
  std::vector<std::size_t> free;
  const std::size_t most_steps = 10 * equations.size;
  for (std::size_t i = 0; i < most_steps; ++i) {
    const std::size_t next = steepest(equations, x, free);
    if (next == equations.size) break;
    free.push_back(next);
    approach(equations, x, free);
  }
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= equations.scales[i];
  return x;
}

}  // namespace podaq::runtime_detail
