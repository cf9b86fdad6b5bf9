#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "podaq/core/error.h"
#include "podaq/graph/verify.h"

namespace podaq {
namespace {

using Sizes = std::vector<std::int64_t>;

struct ShapeCase {
  std::string what;
  Op op;
  std::vector<Shape> inputs;
  std::vector<Shape> tensors;  // an empty entry is an absent tensor
  Shape output;

  friend void PrintTo(const ShapeCase& example, std::ostream* out) { *out << example.what; }
};

Shape infer(const ShapeCase& example) {
  Graph graph;
  Node node{.op = example.op, .name = "node", .inputs = {}, .tensors = {}};
  for (const Shape& shape : example.inputs)
    node.inputs.push_back(add_value(graph, "value" + std::to_string(node.inputs.size()), shape));
  for (const Shape& shape : example.tensors) {
    node.tensors.push_back(shape.empty() ? "" : "tensor" + std::to_string(node.tensors.size()));
    if (!shape.empty()) graph.tensors[node.tensors.back()].shape = shape;
  }
  return infer_shape(graph, node);
}

Conv conv1d(std::int64_t stride, std::int64_t begin, std::int64_t end, std::int64_t dilation, std::int64_t groups = 1) {
  return {.stride = {stride},
          .pads_begin = {begin},
          .pads_end = {end},
          .dilation = {dilation},
          .groups = groups,
          .adds_input = false,
          .clamp = {}};
}

Conv conv2d(const Sizes& stride, const Sizes& begin, const Sizes& end, const Sizes& dilation) {
  return {.stride = stride,
          .pads_begin = begin,
          .pads_end = end,
          .dilation = dilation,
          .groups = 1,
          .adds_input = false,
          .clamp = {}};
}

MaxPool max1d(std::int64_t kernel, std::int64_t stride, std::int64_t begin, std::int64_t end, std::int64_t dilation) {
  return {.kernel = {kernel}, .stride = {stride}, .pads_begin = {begin}, .pads_end = {end}, .dilation = {dilation}};
}

AvgPool average1d(std::int64_t kernel, std::int64_t stride, std::int64_t begin, std::int64_t end) {
  return {.kernel = {kernel}, .stride = {stride}, .pads_begin = {begin}, .pads_end = {end}, .count_padding = true};
}

Conv adding_conv() {
  Conv conv = conv1d(1, 1, 1, 1);
  conv.adds_input = true;
  return conv;
}

class InferShape : public testing::TestWithParam<ShapeCase> {};

TEST_P(InferShape, GivesTheShapeWorkedOutByHand) {
  EXPECT_EQ(infer(GetParam()), GetParam().output);
}

INSTANTIATE_TEST_SUITE_P(
    Golden, InferShape,
    testing::Values(ShapeCase{"conv1d", conv1d(1, 1, 1, 1), {{2, 1024}}, {{64, 2, 3}, {64}}, {64, 1024}},
                    ShapeCase{"conv1d_strided", conv1d(2, 3, 3, 1), {{3, 224}}, {{8, 3, 7}, {}}, {8, 112}},
                    ShapeCase{"conv1d_dilated", conv1d(1, 0, 0, 4), {{1, 20}}, {{1, 1, 3}, {}}, {1, 12}},
                    ShapeCase{"conv1d_one_sided_pad", conv1d(1, 6, 0, 3), {{1, 20}}, {{1, 1, 3}, {}}, {1, 20}},
                    ShapeCase{"conv1d_depthwise", conv1d(1, 0, 0, 1, 6), {{6, 5}}, {{12, 1, 5}, {12}}, {12, 1}},
                    ShapeCase{"conv1d_pads_beyond_kernel", conv1d(1, 4, 4, 1), {{1, 1}}, {{1, 1, 1}, {}}, {1, 9}},
                    ShapeCase{
                        "conv2d", conv2d({2, 1}, {1, 0}, {1, 2}, {1, 2}), {{3, 9, 10}}, {{4, 3, 3, 2}, {}}, {4, 5, 10}},
                    ShapeCase{"conv1d_adding", adding_conv(), {{3, 7}, {5, 7}}, {{5, 3, 3}, {}}, {5, 7}},
                    ShapeCase{"linear", Linear{}, {{10}}, {{3, 10}, {3}}, {3}},
                    ShapeCase{"linear_of_rows", Linear{}, {{4, 5, 10}}, {{3, 10}, {}}, {4, 5, 3}},
                    ShapeCase{"max_pool", max1d(2, 2, 0, 0, 1), {{4, 9}}, {}, {4, 4}},
                    ShapeCase{"max_pool_ceil_mode", max1d(2, 2, 0, 1, 1), {{4, 9}}, {}, {4, 5}},
                    ShapeCase{"max_pool_dilated", max1d(3, 1, 1, 1, 2), {{4, 9}}, {}, {4, 7}},
                    ShapeCase{"avg_pool", average1d(3, 2, 1, 1), {{4, 9}}, {}, {4, 5}},
                    ShapeCase{"adaptive_pool",
                              AdaptivePool{.kind = AdaptivePool::Kind::max, .output_size = {3, 2}},
                              {{4, 5, 5}},
                              {},
                              {4, 3, 2}},
                    ShapeCase{"global_mean", GlobalMean{}, {{4, 5, 5}}, {}, {4}},
                    ShapeCase{"global_max", GlobalMax{}, {{4, 5}}, {}, {4}},
                    ShapeCase{"concat_channels", Concat{.axis = 0}, {{4, 5}, {1, 5}, {2, 5}}, {}, {7, 5}},
                    ShapeCase{"concat_last", Concat{.axis = 1}, {{4, 5}, {4, 1}}, {}, {4, 6}},
                    ShapeCase{"reshape", Reshape{.shape = {6, 2}}, {{3, 4}}, {}, {6, 2}},
                    ShapeCase{"flatten", Reshape{.shape = {12}}, {{3, 4}}, {}, {12}},
                    ShapeCase{"batch_norm", BatchNorm{}, {{3, 4}}, {{3}, {3}, {3}, {3}, {}}, {3, 4}},
                    ShapeCase{"softmax", Softmax{.axis = 1}, {{3, 4}}, {}, {3, 4}}),
    [](const auto& example) { return example.param.what; });

class RefuseShape : public testing::TestWithParam<ShapeCase> {};

TEST_P(RefuseShape, NamesTheNode) {
  try {
    static_cast<void>(infer(GetParam()));
    FAIL() << "should have thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::graph);
    EXPECT_NE(std::string(error.what()).find("'node'"), std::string::npos) << error.what();
  }
}

constexpr std::int64_t huge = std::int64_t{1} << 62;

INSTANTIATE_TEST_SUITE_P(
    Golden, RefuseShape,
    testing::Values(
        ShapeCase{"stride_zero", conv1d(0, 1, 1, 1), {{2, 8}}, {{4, 2, 3}, {}}, {}},
        ShapeCase{"stride_negative", conv1d(-1, 1, 1, 1), {{2, 8}}, {{4, 2, 3}, {}}, {}},
        ShapeCase{"stride_huge", conv1d(huge, 1, 1, 1), {{2, 8}}, {{4, 2, 3}, {}}, {}},
        ShapeCase{"dilation_zero", conv1d(1, 1, 1, 0), {{2, 8}}, {{4, 2, 3}, {}}, {}},
        ShapeCase{"dilation_huge", conv1d(1, 1, 1, huge), {{2, 8}}, {{4, 2, 3}, {}}, {}},
        ShapeCase{"pad_negative", conv1d(1, -1, 1, 1), {{2, 8}}, {{4, 2, 3}, {}}, {}},
        ShapeCase{"pad_huge", conv1d(1, 0, huge, 1), {{2, 8}}, {{4, 2, 3}, {}}, {}},
        ShapeCase{"kernel_larger_than_input", conv1d(1, 0, 0, 1), {{2, 8}}, {{4, 2, 9}, {}}, {}},
        ShapeCase{"groups_zero", conv1d(1, 0, 0, 1, 0), {{2, 8}}, {{4, 2, 3}, {}}, {}},
        ShapeCase{"groups_negative", conv1d(1, 0, 0, 1, -2), {{2, 8}}, {{4, 2, 3}, {}}, {}},
        ShapeCase{"groups_not_dividing_input", conv1d(1, 0, 0, 1, 3), {{4, 8}}, {{6, 1, 3}, {}}, {}},
        ShapeCase{"groups_not_dividing_output", conv1d(1, 0, 0, 1, 2), {{4, 8}}, {{3, 2, 3}, {}}, {}},
        ShapeCase{"channels", conv1d(1, 0, 0, 1), {{3, 8}}, {{4, 2, 3}, {}}, {}},
        ShapeCase{"conv_of_vector", conv1d(1, 0, 0, 1), {{3}}, {{4, 3, 3}, {}}, {}},
        ShapeCase{"conv_weight_rank", conv1d(1, 0, 0, 1), {{3, 8}}, {{4, 3}, {}}, {}},
        ShapeCase{"conv_attribute_count", conv1d(1, 0, 0, 1), {{3, 8, 8}}, {{4, 3, 3, 3}, {}}, {}},
        ShapeCase{"conv_bias", conv1d(1, 0, 0, 1), {{3, 8}}, {{4, 3, 3}, {3}}, {}},
        ShapeCase{"conv_without_weight", conv1d(1, 0, 0, 1), {{3, 8}}, {{}, {}}, {}},
        ShapeCase{"conv_tensor_count", conv1d(1, 0, 0, 1), {{3, 8}}, {{4, 3, 3}}, {}},
        ShapeCase{"added_input_missing", adding_conv(), {{3, 7}}, {{5, 3, 3}, {}}, {}},
        ShapeCase{"added_input_shape", adding_conv(), {{3, 7}, {5, 6}}, {{5, 3, 3}, {}}, {}},
        ShapeCase{"added_input_unasked", conv1d(1, 1, 1, 1), {{3, 7}, {5, 7}}, {{5, 3, 3}, {}}, {}},
        ShapeCase{"linear_features", Linear{}, {{9}}, {{3, 10}, {}}, {}},
        ShapeCase{"linear_weight_rank", Linear{}, {{9}}, {{9}, {}}, {}},
        ShapeCase{"linear_bias", Linear{}, {{10}}, {{3, 10}, {10}}, {}},
        ShapeCase{"batch_norm_channels", BatchNorm{}, {{3, 4}}, {{3}, {3}, {4}, {3}, {}}, {}},
        ShapeCase{"batch_norm_without_mean", BatchNorm{}, {{3, 4}}, {{3}, {3}, {}, {3}, {}}, {}},
        ShapeCase{"batch_norm_epsilon", BatchNorm{.epsilon = -1.0}, {{3}}, {{3}, {3}, {3}, {3}, {}}, {}},
        ShapeCase{"pool_all_padding", max1d(2, 1, 2, 0, 1), {{4, 9}}, {}, {}},
        ShapeCase{"pool_end_all_padding", average1d(2, 1, 0, 2), {{4, 9}}, {}, {}},
        ShapeCase{"pool_taps_around_the_input", max1d(2, 1, 1, 1, 2), {{4, 1}}, {}, {}},
        ShapeCase{"pool_kernel_zero", max1d(0, 1, 0, 0, 1), {{4, 9}}, {}, {}},
        ShapeCase{"adaptive_zero", AdaptivePool{.kind = {}, .output_size = {0}}, {{4, 9}}, {}, {}},
        ShapeCase{"adaptive_overflow", AdaptivePool{.kind = {}, .output_size = {huge, huge}}, {{4, 9, 9}}, {}, {}},
        ShapeCase{"global_of_vector", GlobalMean{}, {{4}}, {}, {}}, ShapeCase{"add_shapes", Add{}, {{4}, {5}}, {}, {}},
        ShapeCase{"add_of_one", Add{}, {{4}}, {}, {}}, ShapeCase{"add_of_three", Add{}, {{4}, {4}, {4}}, {}, {}},
        ShapeCase{"mul_shapes", Mul{}, {{4, 1}, {4, 2}}, {}, {}},
        ShapeCase{"concat_axis", Concat{.axis = 2}, {{4, 5}, {4, 5}}, {}, {}},
        ShapeCase{"concat_axis_negative", Concat{.axis = -1}, {{4, 5}, {4, 5}}, {}, {}},
        ShapeCase{"concat_ranks", Concat{.axis = 0}, {{4, 5}, {4}}, {}, {}},
        ShapeCase{"concat_other_size", Concat{.axis = 0}, {{4, 5}, {4, 6}}, {}, {}},
        ShapeCase{"concat_overflow", Concat{.axis = 0}, {{huge}, {huge}, {huge}}, {}, {}},
        ShapeCase{"concat_of_nothing", Concat{.axis = 0}, {}, {}, {}},
        ShapeCase{"reshape_count", Reshape{.shape = {5}}, {{2, 3}}, {}, {}},
        ShapeCase{"reshape_overflow", Reshape{.shape = {huge, huge}}, {{2, 3}}, {}, {}},
        ShapeCase{"reshape_negative", Reshape{.shape = {-2, -3}}, {{2, 3}}, {}, {}},
        ShapeCase{"softmax_axis", Softmax{.axis = 1}, {{4}}, {}, {}},
        ShapeCase{"dropout_p", Dropout{.p = 1.5}, {{4}}, {}, {}},
        ShapeCase{"affine_infinite", Affine{.factor = std::numeric_limits<float>::infinity()}, {{4}}, {}, {}},
        ShapeCase{"clamp_reversed", Clamp{.minimum = 1.0F, .maximum = 0.0F}, {{4}}, {}, {}},
        ShapeCase{"clamp_nan", Clamp{.minimum = std::numeric_limits<float>::quiet_NaN()}, {{4}}, {}, {}},
        ShapeCase{"activation_kind", Activation{.kind = static_cast<ActivationKind>(200)}, {{4}}, {}, {}},
        ShapeCase{"activation_alpha",
                  Activation{.kind = ActivationKind::elu, .alpha = std::numeric_limits<float>::infinity()},
                  {{4}},
                  {},
                  {}},
        ShapeCase{"stray_tensor", GlobalMax{}, {{4, 5}}, {{4}}, {}}),
    [](const auto& example) { return example.param.what; });

TEST(InferShapeGolden, RefusesIdsOutOfRange) {
  Graph graph;
  const Node node{.op = Clamp{}, .name = "node", .inputs = {7}, .tensors = {}};
  EXPECT_THROW(static_cast<void>(infer_shape(graph, node)), Error);
}

}  // namespace
}  // namespace podaq
