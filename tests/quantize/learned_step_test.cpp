#include "podaq/quantize/learned_step.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "compress/network_builder.h"
#include "podaq/quantize/fake_quantize.h"
#include "quantize/special_floats.h"

namespace podaq {
namespace {

constexpr QParams one_sided = {.scale = 0.05F, .zero_point = 0, .lowest = 0, .highest = 255};
constexpr QParams two_sided = {.scale = 0.05F, .zero_point = 100, .lowest = 0, .highest = 255};
constexpr QParams four_bits = {.scale = 0.3F, .zero_point = 5, .lowest = 0, .highest = 15};

struct Gradients {
  torch::Tensor value, x, step;
};

torch::Tensor step_of(const QParams& q) {
  return torch::tensor({q.scale}).set_requires_grad(true);
}

Gradients learned(const torch::Tensor& x, const torch::Tensor& dy, const QParams& q, double factor = 1.0) {
  const torch::Tensor leaf = x.detach().clone(torch::MemoryFormat::Preserve).set_requires_grad(true);
  const torch::Tensor step = step_of(q);
  const torch::Tensor y = fake_quantize_learned(leaf, step, q, factor);
  y.backward(dy);
  return {.value = y.detach(), .x = leaf.grad(), .step = step.grad()};
}

// Numbers at least a tenth of a step away from where rounding or clipping changes.
torch::Tensor numbers_away_from_edges(const QParams& q, std::int64_t count) {
  const torch::Tensor codes = torch::randint(q.lowest - 20, q.highest + 20, {count}) - q.zero_point;
  return (codes + (torch::rand({count}) - 0.5) * 0.8) * q.scale;
}

TEST(LearnedStep, RoundsBitForBitLikeAFixedScale) {
  torch::manual_seed(1);
  for (const QParams& q : {one_sided, two_sided, four_bits}) {
    const torch::Tensor x = torch::randn({7, 33, 5}) * 10 * q.scale;
    EXPECT_TRUE(test::same_bits(learned(x, torch::ones_like(x), q).value, fake_quantize(x, q)));
  }
  const torch::Tensor w = torch::randn({4, 6, 3});
  const std::vector<float> scales = {0.1F, 0.02F, 0.5F, 0.001F};
  const torch::Tensor steps = torch::tensor(scales).set_requires_grad(true);
  EXPECT_TRUE(
      test::same_bits(fake_quantize_channels_learned(w, steps, scales, 7, 1.0), fake_quantize_channels(w, scales, 7)));
}

// numerics.md 2.4: ATen's learnable op is right where the zero point is 0.
TEST(LearnedStep, HasTheGradientsOfAten) {
  torch::manual_seed(2);
  for (const auto& [lowest, highest] : {std::pair(0, 255), std::pair(-127, 127), std::pair(0, 15), std::pair(-1, 1)}) {
    const QParams q{.scale = 0.07F, .zero_point = 0, .lowest = lowest, .highest = highest};
    const torch::Tensor x = torch::randn({40, 500}) * q.scale * highest;
    const torch::Tensor dy = torch::randn({40, 500});
    const double factor = step_gradient_factor(x.numel(), highest);
    const Gradients ours = learned(x, dy, q, factor);
    const torch::Tensor leaf = x.clone().set_requires_grad(true);
    const torch::Tensor step = step_of(q);
    at::_fake_quantize_learnable_per_tensor_affine(leaf, step, torch::zeros({1}), lowest, highest, factor).backward(dy);
    EXPECT_TRUE(ours.x.equal(leaf.grad()));
    EXPECT_NEAR(ours.step.item<float>(), step.grad().item<float>(), 1e-4 * std::abs(step.grad().item<float>()) + 1e-6);
  }
}

TEST(LearnedStep, HasTheGradientsOfAtenPerChannel) {
  torch::manual_seed(3);
  const torch::Tensor w = torch::randn({6, 30, 3});
  const torch::Tensor dy = torch::randn({6, 30, 3});
  const std::vector<float> scales = {0.1F, 0.02F, 0.5F, 0.001F, 0.3F, 0.07F};
  constexpr int limit = 7;
  const auto run = [&](const auto& function) {
    const torch::Tensor leaf = w.clone().set_requires_grad(true);
    const torch::Tensor steps = torch::tensor(scales).set_requires_grad(true);
    function(leaf, steps).backward(dy);
    return Gradients{.value = {}, .x = leaf.grad(), .step = steps.grad()};
  };
  const Gradients ours = run([&](const torch::Tensor& x, const torch::Tensor& steps) {
    return fake_quantize_channels_learned(x, steps, scales, limit, 0.25);
  });
  const Gradients atens = run([&](const torch::Tensor& x, const torch::Tensor& steps) {
    return at::_fake_quantize_learnable_per_channel_affine(x, steps, torch::zeros({6}), 0, -limit, limit, 0.25);
  });
  EXPECT_TRUE(ours.x.equal(atens.x));
  EXPECT_TRUE(torch::allclose(ours.step, atens.step, 1e-4, 1e-5)) << ours.step << atens.step;
}

TEST(LearnedStep, AgreesWithFiniteDifferencesAwayFromRoundingEdges) {
  torch::manual_seed(4);
  for (const QParams& q : {one_sided, two_sided, four_bits}) {
    const torch::Tensor x = numbers_away_from_edges(q, 200);
    const torch::Tensor dy = torch::randn({200});
    // Where codes do not change, the output moves by the code difference; what of it is straight-through is subtracted.
    const float change = q.scale * 1e-5F;
    QParams wider = q;
    wider.scale += change;
    const torch::Tensor moved =
        (fake_quantize(x, wider) - fake_quantize(x, q)).to(torch::kDouble) / (wider.scale - q.scale);
    const torch::Tensor codes = (x / q.scale).round();
    const torch::Tensor is_inside = (codes >= q.lowest - q.zero_point).logical_and(codes <= q.highest - q.zero_point);
    const torch::Tensor straight_through = torch::where(is_inside, x / q.scale, torch::zeros_like(x));
    const double expected = ((moved - straight_through) * dy).sum().item<double>();
    EXPECT_NEAR(learned(x, dy, q).step.item<float>(), expected, 0.02 * std::abs(expected) + 1.0);
  }
}

TEST(LearnedStep, ComposedOperationsAgreeWithTheSinglePass) {
  torch::manual_seed(5);
  const torch::Tensor x = torch::randn({6, 9, 11});
  const torch::Tensor dy = torch::randn({6, 9, 11});
  const Gradients expected = learned(x, dy, four_bits);
  const Gradients doubles = learned(x.to(torch::kDouble), dy.to(torch::kDouble), four_bits);
  EXPECT_TRUE(torch::allclose(doubles.x.to(torch::kFloat), expected.x));
  EXPECT_NEAR(doubles.step.item<float>(), expected.step.item<float>(), 1e-3);
  const torch::Tensor sliced = torch::randn({6, 18, 11}).slice(1, 0, 18, 2);
  const Gradients strided = learned(sliced.contiguous(), dy, four_bits);
  const torch::Tensor step = step_of(four_bits);
  fake_quantize_learned(sliced, step, four_bits, 1.0).backward(dy);
  EXPECT_NEAR(step.grad().item<float>(), strided.step.item<float>(), 1e-3);
  const Gradients turned = learned(x.transpose(0, 2), dy.transpose(0, 2), four_bits);
  EXPECT_NEAR(turned.step.item<float>(), expected.step.item<float>(), 1e-3);
}

// Sums are taken in chunks of one size, so that a resumed run on other threads gives the same bytes.
TEST(LearnedStep, HasTheSameGradientOnAnyNumberOfThreads) {
  torch::manual_seed(6);
  const torch::Tensor x = torch::randn({300000});
  const torch::Tensor dy = torch::randn({300000});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const Gradients one = learned(x, dy, two_sided);
  at::set_num_threads(3);
  const Gradients three = learned(x, dy, two_sided);
  at::set_num_threads(threads);
  EXPECT_TRUE(test::same_bits(one.step, three.step));
}

TEST(LearnedStep, GetsNothingFromNan) {
  const torch::Tensor x = torch::tensor({test::nan, 0.07F, test::infinity});
  const Gradients gradients = learned(x, torch::ones({3}), one_sided);
  EXPECT_NEAR(gradients.step.item<float>(), (1 - 1.4F) + 255, 1e-3);
  EXPECT_EQ(gradients.x[0].item<float>(), 0);
}

// A channel whose scale its bias has raised does not follow its step.
TEST(LearnedStep, PassesNoGradientToStepsThatAreNotInEffect) {
  const torch::Tensor w = torch::tensor({{0.11F, 0.26F}, {0.11F, 0.26F}}).set_requires_grad(true);
  const torch::Tensor steps = torch::tensor({0.1F, 0.1F}).set_requires_grad(true);
  const std::vector<float> scales = {0.1F, 0.2F};
  fake_quantize_channels_learned(w, steps, scales, 7, 1.0).sum().backward();
  EXPECT_NE(steps.grad()[0].item<float>(), 0);
  EXPECT_EQ(steps.grad()[1].item<float>(), 0);
}

LearnedSteps with_gradient(const std::vector<float>& steps, const std::vector<float>& gradient) {
  LearnedSteps learned = begin_steps(steps);
  learned.steps.mutable_grad() = torch::tensor(gradient);
  return learned;
}

TEST(LearnedStep, DescendsWithMomentum) {
  LearnedSteps learned = with_gradient({50.0F}, {1.0F});
  descend(learned, 0.1);
  EXPECT_FLOAT_EQ(values_of(learned)[0], 49.9F);
  EXPECT_FALSE(learned.steps.grad().defined());
  descend(learned, 0.1);
  EXPECT_FLOAT_EQ(values_of(learned)[0], 49.9F) << "without a gradient nothing moves";
  learned.steps.mutable_grad() = torch::tensor({0.0F});
  descend(learned, 0.1);
  EXPECT_FLOAT_EQ(values_of(learned)[0], 49.81F);
  learned.steps.mutable_grad() = torch::tensor({5.0F});
  descend(learned, 0);
  EXPECT_FLOAT_EQ(values_of(learned)[0], 49.81F);
}

// A clipped element of an 8-bit weight has 127 times the gradient of a rounded one, in a step 1/127 as large.
TEST(LearnedStep, ChangesByAtMostAHundredthAndForgetsASpike) {
  LearnedSteps learned = with_gradient({0.003F, 0.003F}, {1e9F, -1e9F});
  descend(learned, 0.01);
  EXPECT_FLOAT_EQ(values_of(learned)[0], 0.003F * 0.99F);
  EXPECT_FLOAT_EQ(values_of(learned)[1], 0.003F * 1.01F);
  for (int i = 0; i < 100; ++i) {
    learned.steps.mutable_grad() = torch::tensor({0.0F, 0.0F});
    descend(learned, 0.01);
  }
  EXPECT_GT(values_of(learned)[0], 0.003F * 0.9F);
  EXPECT_LT(values_of(learned)[1], 0.003F * 1.1F);
}

// C20: lsq-net #17, LSQplus #12, ppq #518, a learned step crosses zero.
TEST(LearnedStep, NeverFallsBelowTheSmallestStep) {
  LearnedSteps learned = with_gradient({smallest_step, 0.5F, 0.5F, 0.0F}, {1e9F, test::nan, -test::infinity, 5.0F});
  descend(learned, 10);
  EXPECT_EQ(values_of(learned)[0], smallest_step);
  EXPECT_EQ(values_of(learned)[1], 0.5F);
  EXPECT_EQ(values_of(learned)[2], 0.5F);
  EXPECT_EQ(values_of(learned)[3], 0.0F) << "not begun";
  for (int i = 0; i < 100; ++i) {
    learned.steps.mutable_grad() = torch::randn({4}) * 1e6;
    descend(learned, 10);
    for (const float step : values_of(learned).first(3)) EXPECT_GE(step, smallest_step);
  }
}

}  // namespace
}  // namespace podaq
