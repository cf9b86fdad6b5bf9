#include "podaq/training/distillation.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <string>

#include "podaq/core/error.h"
#include "training/small_net.h"

namespace podaq {
namespace {

TEST(DistillationLoss, OfTheTeacherItselfIsTheLabelsPart) {
  const torch::Tensor logits = torch::randn({5, 3});
  const torch::Tensor label_loss = torch::tensor(2.0);
  EXPECT_NEAR(distillation_loss(logits, logits, label_loss, {.weight = 0.25}).item<double>(), 1.5, 1e-6);
}

TEST(DistillationLoss, IsTheDivergenceAtTheTemperature) {
  const torch::Tensor student = torch::randn({4, 6}, torch::kDouble);
  const torch::Tensor teacher = torch::randn({4, 6}, torch::kDouble);
  const double loss =
      distillation_loss(student, teacher, torch::zeros({}), {.weight = 1, .temperature = 3}).item<double>();
  const torch::Tensor expected =
      torch::nn::functional::kl_div((student / 3).log_softmax(1), (teacher / 3).softmax(1),
                                    torch::nn::functional::KLDivFuncOptions().reduction(torch::kBatchMean));
  EXPECT_NEAR(loss, 9 * expected.item<double>(), 1e-9);
}

TEST(DistillationLoss, GradientsReachTheStudentAlone) {
  const torch::Tensor student = torch::randn({4, 3}).set_requires_grad(true);
  const torch::Tensor teacher = torch::randn({4, 3}).set_requires_grad(true);
  distillation_loss(student, teacher, torch::zeros({})).backward();
  EXPECT_GT(student.grad().abs().max().item<double>(), 0);
  EXPECT_FALSE(teacher.grad().defined());
}

TEST(DistillationLoss, RefusesOptionsOutOfRangeByName) {
  const torch::Tensor logits = torch::randn({2, 3});
  const auto refused = [&](const DistillationOptions& options, const std::string& name) {
    try {
      (void)distillation_loss(logits, logits, torch::zeros({}), options);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  };
  refused({.weight = 1.5}, "weight");
  refused({.weight = std::nan("")}, "weight");
  refused({.temperature = 0}, "temperature");
  EXPECT_THROW((void)distillation_loss(logits, torch::randn({2, 4}), torch::zeros({})), Error);
}

TEST(Teacher, StaysAsItWasWhenTheStudentLearns) {
  const auto model = testing::trained_pair().captured;
  const Teacher teacher(*model);
  const torch::Tensor input = torch::randn({3, 2, 8});
  const torch::Tensor before = teacher.logits(input);
  {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : model->parameters()) parameter.add_(1.0);
  }
  EXPECT_TRUE(torch::equal(teacher.logits(input), before));
  EXPECT_FALSE(before.requires_grad());
  EXPECT_NE(Teacher(*model).hash(), teacher.hash());
  EXPECT_EQ(Teacher(*model).hash(), Teacher(*model).hash());
}

}  // namespace
}  // namespace podaq
