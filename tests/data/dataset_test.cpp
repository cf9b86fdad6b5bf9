#include "podaq/data/dataset.h"

#include <gtest/gtest.h>

#include <limits>

#include "podaq/core/error.h"

namespace podaq {
namespace {

Dataset small_dataset() {
  return {.sample_shape = {2, 2},
          .samples = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
          .labels = {0, 1, 0},
          .groups = {-2, 0, 2},
          .class_names = {"a", "b"}};
}

std::string refusal(const Dataset& dataset) {
  try {
    validate(dataset, "trial");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(Dataset, AddressesSamples) {
  const auto dataset = small_dataset();
  EXPECT_EQ(dataset.size(), 3);
  EXPECT_EQ(dataset.sample_size(), 4);
  EXPECT_EQ(std::vector<float>(dataset.sample(1).begin(), dataset.sample(1).end()), (std::vector<float>{4, 5, 6, 7}));
}

TEST(Dataset, ValidationAcceptsSoundData) {
  EXPECT_EQ(refusal(small_dataset()), "");
  auto without_groups = small_dataset();
  without_groups.groups.clear();
  EXPECT_EQ(refusal(without_groups), "");
  EXPECT_EQ(refusal(Dataset{.sample_shape = {3}}), "");
}

TEST(Dataset, ValidationNamesTheFault) {
  const auto broken = [](auto change) {
    auto dataset = small_dataset();
    change(dataset);
    return refusal(dataset);
  };
  EXPECT_NE(broken([](Dataset& d) { d.samples.pop_back(); }).find("11 floats"), std::string::npos);
  EXPECT_NE(broken([](Dataset& d) { d.groups.pop_back(); }).find("2 groups for 3 labels"), std::string::npos);
  EXPECT_NE(broken([](Dataset& d) { d.labels[2] = 2; }).find("row 2 has the label 2"), std::string::npos);
  EXPECT_NE(broken([](Dataset& d) { d.labels[1] = -1; }).find("row 1 has the label -1"), std::string::npos);
  EXPECT_NE(broken([](Dataset& d) { d.sample_shape[0] = 0; }).find("dimension 0"), std::string::npos);
  EXPECT_NE(broken([](Dataset& d) {
              d.sample_shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
            }).find("memory"),
            std::string::npos);
  EXPECT_NE(
      broken([](Dataset& d) { d.samples[5] = std::numeric_limits<float>::quiet_NaN(); }).find("row 1 holds a value"),
      std::string::npos);
}

TEST(Dataset, SubsetKeepsOrderLabelsAndGroups) {
  const auto chosen = subset(small_dataset(), std::vector<std::int64_t>{2, 1, 2});
  EXPECT_EQ(chosen.labels, (std::vector<std::int32_t>{0, 1, 0}));
  EXPECT_EQ(chosen.groups, (std::vector<std::int32_t>{2, 0, 2}));
  EXPECT_EQ(chosen.samples, (std::vector<float>{8, 9, 10, 11, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_THROW((void)subset(small_dataset(), std::vector<std::int64_t>{3}), Error);
  EXPECT_THROW((void)subset(small_dataset(), std::vector<std::int64_t>{-1}), Error);
}

}  // namespace
}  // namespace podaq
