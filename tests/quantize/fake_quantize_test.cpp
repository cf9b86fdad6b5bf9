#include "podaq/quantize/fake_quantize.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "compress/network_builder.h"
#include "podaq/core/error.h"
#include "podaq/numerics/quantize.h"
#include "quantize/special_floats.h"

namespace podaq {
namespace {

using test::same_bits;

// Random numbers with many on and beside rounding ties and range ends.
torch::Tensor hard_numbers(const std::vector<std::int64_t>& shape, float scale) {
  torch::Tensor x = torch::randn(shape) * scale * 60;
  const torch::Tensor halves = (x / scale).round() + 0.5;
  const torch::Tensor on_ties = halves * scale;
  const torch::Tensor choice = torch::randint(4, shape);
  x = torch::where(choice == 0, on_ties, x);
  x = torch::where(choice == 1, torch::nextafter(on_ties, torch::zeros_like(x)), x);
  return x;
}

struct Gradient {
  torch::Tensor value, gradient;
};

template <typename Function>
Gradient run(const torch::Tensor& x, const torch::Tensor& dy, const Function& function) {
  const torch::Tensor leaf = x.detach().clone(torch::MemoryFormat::Preserve).set_requires_grad(true);
  const torch::Tensor y = function(leaf);
  y.backward(dy);
  return {.value = y.detach(), .gradient = leaf.grad()};
}

class PerTensor : public testing::TestWithParam<std::vector<std::int64_t>> {};

TEST_P(PerTensor, EqualsAtenBitForBitInValueAndGradient) {
  torch::manual_seed(1);
  for (const float scale : {1.0F, 0.1F, 0.38F, 0.0123F, 3.0e-4F, 17.3F}) {
    for (const auto& [zero_point, lowest, highest] :
         {std::tuple(0, -127, 127), std::tuple(0, 0, 255), std::tuple(128, 0, 255), std::tuple(255, 0, 255),
          std::tuple(3, 0, 15), std::tuple(0, -1, 1)}) {
      const torch::Tensor x = hard_numbers(GetParam(), scale);
      const torch::Tensor dy = torch::randn(GetParam());
      const QParams q{.scale = scale, .zero_point = zero_point, .lowest = lowest, .highest = highest};
      const Gradient ours = run(x, dy, [&](const torch::Tensor& t) { return fake_quantize(t, q); });
      const Gradient atens = run(x, dy, [&](const torch::Tensor& t) {
        return at::fake_quantize_per_tensor_affine(t, scale, q.zero_point, q.lowest, q.highest);
      });
      EXPECT_TRUE(ours.value.equal(atens.value)) << scale;
      EXPECT_TRUE(ours.gradient.equal(atens.gradient)) << scale;
    }
  }
}

class PerChannel : public testing::TestWithParam<std::vector<std::int64_t>> {};

TEST_P(PerChannel, EqualsAtenBitForBitInValueAndGradient) {
  torch::manual_seed(2);
  const torch::Tensor scales = torch::rand({GetParam()[0]}) * 0.2 + 1e-3;
  const torch::Tensor x = hard_numbers(GetParam(), 0.1F);
  const torch::Tensor dy = torch::randn(GetParam());
  const std::span<const float> row(scales.const_data_ptr<float>(), static_cast<std::size_t>(scales.numel()));
  for (const std::int32_t limit : {127, 7, 1}) {
    const Gradient ours = run(x, dy, [&](const torch::Tensor& t) { return fake_quantize_channels(t, row, limit); });
    const Gradient atens = run(x, dy, [&](const torch::Tensor& t) {
      return at::fake_quantize_per_channel_affine(t, scales, torch::zeros({x.size(0)}, torch::kInt), 0, -limit, limit);
    });
    EXPECT_TRUE(ours.value.equal(atens.value));
    EXPECT_TRUE(ours.gradient.equal(atens.gradient));
  }
}

using Shapes = std::vector<std::int64_t>;

INSTANTIATE_TEST_SUITE_P(All, PerTensor,
                         testing::Values(Shapes{}, Shapes{0}, Shapes{1}, Shapes{5, 0}, Shapes{7, 3}, Shapes{3, 5, 17},
                                         Shapes{4, 6, 9, 11}, Shapes{16, 64, 129}));
INSTANTIATE_TEST_SUITE_P(All, PerChannel,
                         testing::Values(Shapes{1}, Shapes{5, 0}, Shapes{7, 3}, Shapes{3, 5, 17}, Shapes{4, 6, 9, 11},
                                         Shapes{16, 64, 129}));

TEST(FakeQuantize, WorksInStorageOrderOfAnyLayout) {
  torch::manual_seed(3);
  const QParams q{.scale = 0.1F, .zero_point = 100, .lowest = 0, .highest = 255};
  const torch::Tensor base = hard_numbers({4, 6, 8, 10}, 0.1F);
  const torch::Tensor dy = torch::randn({4, 6, 8, 10});
  const Gradient expected = run(base, dy, [&](const torch::Tensor& t) { return fake_quantize(t, q); });
  const torch::Tensor channels_last = base.contiguous(torch::MemoryFormat::ChannelsLast);
  const Gradient dense = run(channels_last, dy, [&](const torch::Tensor& t) { return fake_quantize(t, q); });
  EXPECT_TRUE(dense.value.equal(expected.value));
  EXPECT_TRUE(dense.gradient.equal(expected.gradient));
  EXPECT_EQ(dense.value.strides(), channels_last.strides());

  const torch::Tensor sliced = torch::randn({4, 12, 8, 10}).slice(1, 0, 12, 2).slice(3, 1, 9, 3);
  EXPECT_TRUE(fake_quantize(sliced, q).equal(fake_quantize(sliced.contiguous(), q)));

  const std::vector<float> scales = {0.1F, 0.2F, 0.3F, 0.05F};
  const Gradient rows = run(base, dy, [&](const torch::Tensor& t) { return fake_quantize_channels(t, scales, 127); });
  const Gradient last =
      run(channels_last, dy, [&](const torch::Tensor& t) { return fake_quantize_channels(t, scales, 127); });
  EXPECT_TRUE(last.value.equal(rows.value));
  EXPECT_TRUE(last.gradient.equal(rows.gradient));
  const torch::Tensor turned = base.permute({1, 0, 2, 3}).contiguous().permute({1, 0, 2, 3});
  EXPECT_TRUE(fake_quantize_channels(turned, scales, 127).equal(rows.value));
}

// Other types and devices compose ATen operations; on float numbers these must come to the same bits.
TEST(FakeQuantize, ComposedOperationsAgreeWithTheSinglePass) {
  torch::manual_seed(4);
  const torch::Tensor x = hard_numbers({64, 33}, 0.25F);
  const torch::Tensor dy = torch::randn({64, 33});
  const QParams q{.scale = 0.25F, .zero_point = 7, .lowest = 0, .highest = 15};
  const auto pass = [&](const torch::Tensor& t) { return fake_quantize(t, q); };
  const Gradient single = run(x, dy, pass);
  const Gradient composed = run(x.to(torch::kDouble), dy.to(torch::kDouble), pass);
  EXPECT_TRUE(composed.value.to(torch::kFloat).equal(single.value));
  EXPECT_TRUE(composed.gradient.to(torch::kFloat).equal(single.gradient));

  const torch::Tensor odd = torch::tensor({test::nan, test::infinity, -test::infinity, 1e30F, -1e30F});
  EXPECT_TRUE(fake_quantize(odd.to(torch::kDouble), q).to(torch::kFloat).equal(fake_quantize(odd, q)));
}

// numerics.md 2.3.
TEST(FakeQuantize, HasTheMeasuredVectors) {
  EXPECT_EQ(fake_quantize(torch::tensor({0.35F}), {.scale = 0.1F, .zero_point = 0, .lowest = -128, .highest = 127})
                .item<float>(),
            0.4F);
  const QParams int8{.scale = 1.0F, .zero_point = 0, .lowest = -128, .highest = 127};
  const torch::Tensor x = torch::tensor({127.4F, 127.5F, 127.6F, -128.4F, -128.5F, -128.6F});
  const Gradient result = run(x, torch::ones({6}), [&](const torch::Tensor& t) { return fake_quantize(t, int8); });
  EXPECT_TRUE(result.gradient.equal(torch::tensor({1.0F, 0.0F, 0.0F, 1.0F, 1.0F, 0.0F})));
}

TEST(FakeQuantize, TakesNanToZeroAndSaturatesInfinitiesWithoutGradient) {
  const QParams q{.scale = 0.5F, .zero_point = 10, .lowest = 0, .highest = 255};
  const torch::Tensor x = torch::tensor({test::nan, test::infinity, -test::infinity, 1e38F, -1e38F});
  const Gradient result = run(x, torch::ones({5}), [&](const torch::Tensor& t) { return fake_quantize(t, q); });
  EXPECT_TRUE(result.value.equal(torch::tensor({0.0F, 122.5F, -5.0F, 122.5F, -5.0F})));
  EXPECT_TRUE(result.gradient.equal(torch::zeros({5})));
}

TEST(FakeQuantizeBias, RoundsToItsCodesAndPassesTheWholeGradient) {
  const torch::Tensor bias = torch::tensor({0.1234567F, -3.0F, 0.0F});
  const std::vector<float> scales = {1.0e-3F, 7.0e-4F, 1.0F};
  const torch::Tensor dy = torch::tensor({1.0F, -2.0F, 3.0F});
  const Gradient result = run(bias, dy, [&](const torch::Tensor& t) { return fake_quantize_bias(t, scales); });
  for (std::int64_t c = 0; c < 3; ++c) {
    const float scale = scales[static_cast<std::size_t>(c)];
    EXPECT_EQ(result.value[c].item<float>(),
              static_cast<float>(numerics::quantize_bias(bias[c].item<float>(), scale)) * scale);
  }
  EXPECT_TRUE(result.gradient.equal(dy));
}

TEST(FakeQuantize, RefusesAnotherNumberOfScalesThanChannels) {
  const std::vector<float> scales = {1.0F, 2.0F};
  EXPECT_THROW((void)fake_quantize_channels(torch::ones({3, 2}), scales, 127), Error);
  EXPECT_THROW((void)fake_quantize_channels(torch::ones({}), scales, 127), Error);
  EXPECT_THROW((void)fake_quantize_bias(torch::ones({3}), scales), Error);
}

}  // namespace
}  // namespace podaq
