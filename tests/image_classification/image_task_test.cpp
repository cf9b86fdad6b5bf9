#include "image_classification/image_task.h"

#include <gtest/gtest.h>

#include <set>

#include "podaq/compress/recipe.h"
#include "podaq/core/error.h"

namespace podaq::images {
namespace {

TEST(ImageTask, SplitsFashionMnistByClassAndLeavesTheTestSetWhole) {
  const TaskData data = make_task({}).load_data(1, 1);
  EXPECT_EQ(data.train.size(), 54000);
  EXPECT_EQ(data.validation.size(), 6000);
  EXPECT_EQ(data.test.size(), 10000);
  std::vector<int> counts(10);
  for (const std::int32_t label : data.validation.labels) ++counts.at(static_cast<std::size_t>(label));
  for (const int count : counts) EXPECT_EQ(count, 600);
}

TEST(ImageTask, ItsNetworkIsCapturedWholeAndItsRecipesAreEquallyLong) {
  const Task task = make_task({});
  const TaskNetwork network = task.make_network(1);
  EXPECT_EQ(network.captured->parameters().size(), network.module->parameters().size());
  std::set<double> lengths;
  for (const Strategy& strategy : task.strategies) lengths.insert(total_epochs(strategy.recipe));
  EXPECT_EQ(lengths.size(), 1U);
}

TEST(ImageTask, NamesTheFolderWithoutImages) {
  const Task task = make_task({.data = "/nowhere"});
  try {
    static_cast<void>(task.load_data(1, 1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("/nowhere"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace podaq::images
