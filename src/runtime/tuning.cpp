#include "podaq/runtime/tuning.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "podaq/core/atomic_file.h"
#include "podaq/core/cpu.h"
#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "runtime/cost_model.h"
#include "runtime/isa.h"
#include "runtime/nonnegative_fit.h"
#include "runtime/tuning.h"
#include "runtime/tuning_file.h"

namespace podaq {

namespace runtime_detail {

namespace {

double estimate(const std::vector<double>& work, const CostCoefficients& cost) {
  double time = 0.0;
  for (std::size_t i = 0; i < work.size(); ++i) time += work[i] * (cost.*named_coefficients[i].member);
  return time;
}

CostCoefficients no_costs() {
  CostCoefficients cost;
  for (const NamedCoefficient& coefficient : named_coefficients) cost.*coefficient.member = 0.0;
  return cost;
}

// Errors are relative, but for the shortest nodes, whose times the clock's own steps make uncertain.
double weight_of(const NodeSample& sample) {
  constexpr double clock_error_ns = 100.0;
  return 1.0 / (sample.ns + clock_error_ns);
}

std::vector<Observation> observations_of(std::span<const NodeSample> samples) {
  std::vector<Observation> observations;
  for (const NodeSample& sample : samples)
    observations.push_back({.features = sample.work, .target = sample.ns, .weight = weight_of(sample)});
  return observations;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

std::vector<double> work_of(const PlanNode& node, std::size_t batch) {
  std::vector<double> work;
  for (const NamedCoefficient& coefficient : named_coefficients) {
    CostCoefficients unit = no_costs();
    unit.*coefficient.member = 1.0;
    const auto time = node_ns(node, batch, unit);
    if (!time) return {};
    work.push_back(*time);
  }
  return work;
}

CostCoefficients fit_costs(std::span<const NodeSample> samples) {
  constexpr double clear_outlier = 0.25;  // of a sample's time
  std::vector<Observation> observations = observations_of(samples);
  std::vector<double> fitted = fit_nonnegative(observations);
  // Once more with less weight for what something else has disturbed.
  for (Observation& o : observations) {
    const double error = std::abs(dot(o.features, fitted) - o.target) * o.weight;
    if (error > clear_outlier) o.weight *= std::sqrt(clear_outlier / error);
  }
  fitted = fit_nonnegative(observations);
  CostCoefficients cost;
  for (std::size_t i = 0; i < fitted.size(); ++i) {
    const bool is_touched =
        std::any_of(samples.begin(), samples.end(), [&](const NodeSample& sample) { return sample.work[i] > 0.0; });
    if (is_touched) cost.*named_coefficients[i].member = fitted[i];
  }
  return cost;
}

std::vector<TuningFit> fits_of(std::span<const NodeSample> samples, const CostCoefficients& cost) {
  std::map<std::string, std::vector<double>> errors;
  for (const NodeSample& sample : samples)
    errors[std::string(sample.kernel)].push_back(std::abs(estimate(sample.work, cost) / sample.ns - 1.0));
  std::vector<TuningFit> fits;
  for (auto& [kernel, of_kernel] : errors) {
    std::sort(of_kernel.begin(), of_kernel.end());
    fits.push_back({.kernel = kernel,
                    .nodes = of_kernel.size(),
                    .typical_error = of_kernel[of_kernel.size() / 2],
                    .worst_error = of_kernel.back()});
  }
  return fits;
}

}  // namespace runtime_detail

TuningReport tune(const std::filesystem::path& file, const TuningOptions& options) {
  using namespace runtime_detail;
  const Isa isa = selected_isa();
  if (!is_usable(Isa::avx512, isa))
    throw Error(ErrorCode::unsupported,
                concat("there is nothing to tune on ", name_of(isa),
                       ": kernels compete with each other only on avx512 and wider; models run as they are"));
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
  require_writable(file);
  const std::vector<NodeSample> samples = measure_nodes(isa, options);
  const CostCoefficients cost = fit_costs(samples);
  const CpuIdentity cpu = identify_cpu();
  const std::string text = tuning_text(cost, cpu);
  write_file_atomically(file, std::as_bytes(std::span(text)));
  TuningReport report{.cpu = concat(cpu.name, " (", cpu.vendor, " family ", cpu.family, " model ", cpu.model,
                                    " stepping ", cpu.stepping, "), ", name_of(isa)),
                      .fits = fits_of(samples, cost),
                      .coefficients = {}};
  for (const NamedCoefficient& coefficient : named_coefficients)
    report.coefficients.push_back({.name = std::string(coefficient.name),
                                   .shipped = CostCoefficients{}.*coefficient.member,
                                   .here = cost.*coefficient.member});
  return report;
}

}  // namespace podaq
