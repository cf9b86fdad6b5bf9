#include "runtime/tuning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "podaq/core/cpu.h"
#include "podaq/runtime.h"
#include "runtime/avx512.h"
#include "runtime/cost_model.h"
#include "runtime/nonnegative_fit.h"
#include "runtime/support.h"
#include "runtime/synthetic_network.h"
#include "runtime/tuning_file.h"
#include "support/temporary_folder.h"

namespace podaq::runtime_detail {
namespace {

namespace fs = std::filesystem;

// Coefficients that no default has.
CostCoefficients odd_costs() {
  CostCoefficients cost;
  double value = 0.125;
  for (const NamedCoefficient& coefficient : named_coefficients) cost.*coefficient.member = value *= 1.3;
  return cost;
}

bool same(const CostCoefficients& a, const CostCoefficients& b) {
  for (const NamedCoefficient& coefficient : named_coefficients)
    if (a.*coefficient.member != b.*coefficient.member) return false;
  return true;
}

fs::path write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(TuningFile, GivesBackWhatWasStored) {
  const CpuIdentity cpu = identify_cpu();
  const auto read = parse_tuning(tuning_text(odd_costs(), cpu), cpu);
  ASSERT_TRUE(read);
  EXPECT_TRUE(same(*read, odd_costs()));
  const test::TemporaryFolder folder;
  EXPECT_TRUE(same(read_tuning(write_text(folder.path() / "a", tuning_text(odd_costs(), cpu))), odd_costs()));
}

TEST(TuningFile, EveryTruncationIsRefused) {
  const std::string text = tuning_text(odd_costs(), identify_cpu());
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_FALSE(parse_tuning(text.substr(0, length), identify_cpu())) << length;
}

TEST(TuningFile, AnotherCpuVersionOrFormatIsRefused) {
  CpuIdentity cpu = identify_cpu();
  const std::string text = tuning_text(odd_costs(), cpu);
  ++cpu.stepping;
  EXPECT_FALSE(parse_tuning(text, cpu));
  for (const char* part : {"podaq-tuning", " 1 ", "0."}) {
    std::string changed = text;
    changed[changed.find(part)] = 'x';
    EXPECT_FALSE(parse_tuning(changed, identify_cpu())) << part;
  }
}

TEST(TuningFile, HostileNumbersAndLinesAreRefused) {
  const CpuIdentity cpu = identify_cpu();
  const std::string text = tuning_text(odd_costs(), cpu);
  const std::size_t line = text.find("\nsparse_row ") + 1;
  const std::size_t end = text.find('\n', line);
  const auto with_line = [&](const std::string& replacement) {
    return text.substr(0, line) + replacement + text.substr(end);
  };
  ASSERT_TRUE(parse_tuning(with_line("sparse_row 3.5"), cpu));
  for (const char* replacement :
       {"sparse_row nan", "sparse_row inf", "sparse_row -1", "sparse_row -0", "sparse_row 1e300", "sparse_row 1e7",
        "sparse_row", "sparse_row ", "sparse_row 1 2", "sparse_row  1", "sparse_row 0x1", "sparse_row 1e", "", "row 1",
        "sparse_row 1\nsparse_row 1", "sparse_row 1\r"})
    EXPECT_FALSE(parse_tuning(with_line(replacement), cpu)) << replacement;
  EXPECT_FALSE(parse_tuning(text + "more\n", cpu));
  std::string with_zero = text;
  with_zero[line] = '\0';
  EXPECT_FALSE(parse_tuning(with_zero, cpu));
}

TEST(TuningFile, WhatCannotBeReadIsAsIfThereWereNone) {
  const test::TemporaryFolder folder;
  const fs::path large = write_text(folder.path() / "large", std::string(1 << 20, 'x'));
  const fs::path secret = write_text(folder.path() / "secret", tuning_text(odd_costs(), identify_cpu()));
  fs::permissions(secret, fs::perms::none);
  EXPECT_TRUE(same(read_tuning({}), {}));
  for (const fs::path& path : {folder.path(), folder.path() / "absent", large, fs::path("/dev/zero")}) {
    EXPECT_TRUE(same(read_tuning(path), {})) << path;
    NetworkBuilder net({2, 8});
    net.conv(4, 3);
    EXPECT_NO_THROW(Model(net.finish(), {.read = {}, .tuning_file = path})) << path;
  }
  EXPECT_NO_THROW((void)read_tuning(secret));  // a superuser may read it
}

TEST(TuningFile, TheEnvironmentSaysWhere) {
  struct Restored {
    std::string name, value;
    bool was_set;
    explicit Restored(const char* variable) : name(variable), was_set(std::getenv(variable) != nullptr) {
      if (was_set) value = std::getenv(variable);
    }
    Restored(const Restored&) = delete;
    Restored& operator=(const Restored&) = delete;
    ~Restored() { was_set ? setenv(name.c_str(), value.c_str(), 1) : unsetenv(name.c_str()); }
  };
  const Restored tuning("PODAQ_TUNING"), cache("XDG_CACHE_HOME"), home("HOME");
  setenv("PODAQ_TUNING", "off", 1);
  EXPECT_EQ(selected_tuning_file(), fs::path());
  setenv("PODAQ_TUNING", "/some/file", 1);
  EXPECT_EQ(selected_tuning_file(), fs::path("/some/file"));
  unsetenv("PODAQ_TUNING");
  setenv("HOME", "/home/somebody", 1);
  setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(selected_tuning_file().parent_path(), fs::path("/cache/podaq"));
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(selected_tuning_file().parent_path(), fs::path("/home/somebody/.cache/podaq"));
  unsetenv("HOME");
  EXPECT_EQ(selected_tuning_file(), fs::path());
}

// Samples whose times are exactly what the coefficients say.
std::vector<NodeSample> exact_samples(const CostCoefficients& cost, std::size_t count) {
  std::mt19937 engine{5};
  std::vector<NodeSample> samples;
  for (std::size_t i = 0; i < count; ++i) {
    NodeSample& sample = samples.emplace_back();
    sample.kernel = i % 2 == 0 ? "even" : "odd";
    for (const NamedCoefficient& coefficient : named_coefficients) {
      const bool is_touched = coefficient.name != "scalar" && engine() % 3 == 0;
      sample.work.push_back(is_touched ? static_cast<double>(1 + engine() % 1000) : 0.0);
      sample.ns += sample.work.back() * cost.*coefficient.member;
    }
  }
  return samples;
}

TEST(TuningFit, FindsTheCoefficientsBehindExactTimes) {
  CostCoefficients cost = odd_costs();
  cost.transpose = 0.0;
  cost.call = 0.0;
  const std::vector<NodeSample> samples = exact_samples(cost, 300);
  const CostCoefficients fitted = fit_costs(samples);
  for (const NamedCoefficient& coefficient : named_coefficients) {
    if (coefficient.name == "scalar") continue;
    EXPECT_NEAR(fitted.*coefficient.member, cost.*coefficient.member, 1e-6 * (1.0 + cost.*coefficient.member))
        << coefficient.name;
  }
  EXPECT_EQ(fitted.scalar, CostCoefficients{}.scalar) << "no sample touches it";
  const std::vector<TuningFit> fits = fits_of(samples, fitted);
  ASSERT_EQ(fits.size(), 2U);
  for (const TuningFit& fit : fits) {
    EXPECT_EQ(fit.nodes, 150U);
    EXPECT_LT(fit.worst_error, 1e-6);
  }
}

// A few samples that something else disturbed change little.
TEST(TuningFit, LeansAgainstOutliers) {
  std::vector<NodeSample> samples = exact_samples(odd_costs(), 400);
  for (std::size_t i = 0; i < samples.size(); i += 40) samples[i].ns *= 3.0;
  for (const TuningFit& fit : fits_of(samples, fit_costs(samples))) EXPECT_LT(fit.typical_error, 0.05);
}

// Least squares alone would make the second coefficient negative: y = 2 a - b.
TEST(TuningFit, NoCoefficientIsNegative) {
  std::vector<Observation> observations;
  for (const auto& [a, b] : {std::pair{1.0, 0.0}, {1.0, 1.0}, {2.0, 1.0}, {3.0, 1.0}})
    observations.push_back({.features = {a, b}, .target = 2.0 * a - b});
  const std::vector<double> x = fit_nonnegative(observations);
  EXPECT_EQ(x[1], 0.0);
  EXPECT_NEAR(x[0], (2.0 * 15.0 - 6.0) / 15.0, 1e-12) << "the best for the first alone";
  EXPECT_TRUE(fit_nonnegative({}).empty());
}

// The optimum is where no coefficient can move: the error's slope is 0 along those that are positive and does not fall
// along those that are 0 (Kuhn and Tucker).
TEST(TuningFitProperty, NothingFitsBetter) {
  std::mt19937 engine{7};
  std::normal_distribution<double> normal;
  std::size_t zeros = 0;
  for (int problem = 0; problem < 200; ++problem) {
    const std::size_t size = 2 + engine() % 12;
    std::vector<Observation> observations(3 * size);
    for (Observation& o : observations) {
      for (std::size_t i = 0; i < size; ++i)
        o.features.push_back(std::abs(normal(engine)) + (i > 0 ? o.features[i - 1] : 0.0));
      o.target = normal(engine) + 0.3 * o.features.back();
      o.weight = 0.1 + std::abs(normal(engine));
    }
    const std::vector<double> x = fit_nonnegative(observations);
    std::vector<double> slopes(size, 0.0), lengths(size, 0.0);
    for (const Observation& o : observations) {
      double error = -o.target;
      for (std::size_t i = 0; i < size; ++i) error += o.features[i] * x[i];
      for (std::size_t i = 0; i < size; ++i) {
        slopes[i] += o.weight * o.weight * o.features[i] * error;
        lengths[i] += o.weight * o.weight * o.features[i] * o.features[i];
      }
    }
    for (std::size_t i = 0; i < size; ++i) {
      const double tolerance = 1e-6 * std::sqrt(lengths[i]);
      EXPECT_GE(x[i], 0.0);
      EXPECT_GE(slopes[i], -tolerance) << "problem " << problem << ", coefficient " << i;
      if (x[i] > 0.0) {
        EXPECT_LE(slopes[i], tolerance) << "problem " << problem << ", coefficient " << i;
      }
      zeros += x[i] == 0.0 ? 1 : 0;
    }
  }
  EXPECT_GT(zeros, 200U) << "the bound matters in these problems";
}

// The estimate is the sum of counts times coefficients, whatever these are.
TEST(TuningFit, EstimatesAreLinear) {
  if (!test::has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  NetworkBuilder net({3, 20, 20});
  net.conv(32, 3);
  net.max_pool();
  net.conv(80, 3);
  const Graph graph = net.finish();
  for (const SparseKernels sparse : {SparseKernels::never, SparseKernels::always})
    for (const Isa isa : test::runnable_isas())
      for (const PlanNode& node : build_plan(prune(graph, 0.5), isa, sparse).nodes) {
        const std::vector<double> work = work_of(node, 7);
        const auto estimate = node_ns(node, 7, odd_costs());
        ASSERT_EQ(work.empty(), !estimate);
        if (work.empty()) continue;
        double sum = 0.0;
        for (std::size_t i = 0; i < work.size(); ++i) sum += work[i] * (odd_costs().*named_coefficients[i].member);
        EXPECT_NEAR(*estimate, sum, 1e-9 * sum) << node.kernel->name;
      }
}

// The second of its convolutions is node 2.
Graph two_convolutions() {
  NetworkBuilder net({2, 256});
  net.conv(64, 3);
  net.conv(64, 3);
  net.max_pool();
  net.flatten();
  net.linear(4, true);
  return net.finish();
}

std::string conv_kernel(const Graph& graph, const fs::path& tuning) {
  return Model(graph, {.read = {}, .isa = Isa::avx512, .tuning_file = tuning}).kernels()[2].kernel;
}

TEST(Tuning, ChoicesFollowTheFile) {
  if (!test::has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  const test::TemporaryFolder folder;
  const CpuIdentity cpu = identify_cpu();
  CostCoefficients dear_sparse, dear_dense;
  dear_sparse.sparse_row = 1e5;
  dear_dense.dense_output = 1e5;
  const fs::path sparse = write_text(folder.path() / "sparse", tuning_text(dear_sparse, cpu));
  const fs::path dense = write_text(folder.path() / "dense", tuning_text(dear_dense, cpu));
  const Graph graph = two_convolutions();
  EXPECT_EQ(conv_kernel(graph, {}), "avx512_quad_conv");
  EXPECT_EQ(conv_kernel(graph, dense), "avx512_sparse_conv");
  const Graph pruned = prune(graph, 0.97);
  EXPECT_EQ(conv_kernel(pruned, {}), "avx512_sparse_conv");
  EXPECT_EQ(conv_kernel(pruned, sparse), "avx512_quad_conv");
}

// Faster sparse for one sample, faster dense for many, whose tiles are set up once: not slower than dense in batches.
TEST(Tuning, BatchesDoNotLose) {
  if (!missing_feature(Isa::amx, detect_cpu()).empty()) GTEST_SKIP() << "needs AMX";
  const Graph graph = prune(two_convolutions(), 0.97);
  const auto kernel = [&](const CostCoefficients& cost) {
    return build_plan(graph, Isa::amx, SparseKernels::automatic, cost).choices[2].kernel;
  };
  CostCoefficients cost;
  cost.tile_set_up = 1e6;
  cost.sparse_row = 40.0;
  EXPECT_EQ(kernel(cost), "avx512_sparse_conv") << "the set-up counts in a batch of 64 too";
  cost.tile_set_up = 1e4;
  EXPECT_EQ(kernel(cost), "amx_tile_conv");
}

TEST(Tuning, MeasuringGivesSamplesOfEveryCompetingKernel) {
  if (!test::has_avx512()) GTEST_SKIP() << "needs AVX-512 with VNNI";
  const std::vector<NodeSample> samples =
      measure_nodes(Isa::avx512, {.seconds = 1e-3, .progress = {.write = [](std::string_view) {}}});
  for (const char* kernel :
       {"avx512_quad_conv", "avx512_sparse_conv", "avx512_code_max_pool", "avx512_planar_max_pool", "avx512_quantize"})
    EXPECT_TRUE(std::any_of(samples.begin(), samples.end(), [&](const NodeSample& s) { return s.kernel == kernel; }))
        << kernel;
  for (const NodeSample& sample : samples) EXPECT_GT(sample.ns, 0.0);
  const CostCoefficients cost = fit_costs(samples);
  for (const NamedCoefficient& coefficient : named_coefficients) {
    EXPECT_TRUE(std::isfinite(cost.*coefficient.member)) << coefficient.name;
    EXPECT_GE(cost.*coefficient.member, 0.0) << coefficient.name;
  }
}

}  // namespace
}  // namespace podaq::runtime_detail
