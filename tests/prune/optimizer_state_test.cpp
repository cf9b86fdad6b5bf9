#include "podaq/prune/optimizer_state.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <vector>

namespace podaq {
namespace {

TEST(ClearMomentum, KnowsTheFourOptimizers) {
  const auto check = [](auto optimizer, auto momentum_of) {
    torch::Tensor parameter = optimizer.param_groups()[0].params()[0];
    parameter.mutable_grad() = torch::ones({3});
    optimizer.step();
    clear_momentum(optimizer, parameter, torch::tensor({0, 1, 0}, torch::kBool));
    const torch::Tensor momentum = momentum_of(*optimizer.state().at(parameter.unsafeGetTensorImpl()));
    EXPECT_TRUE(momentum.ne(0).equal(torch::tensor({1, 0, 1}, torch::kBool)));
  };
  const auto parameters = [] { return std::vector{torch::ones({3}, torch::requires_grad())}; };
  using State = torch::optim::OptimizerParamState;
  check(torch::optim::SGD(parameters(), torch::optim::SGDOptions(0.1).momentum(0.9)),
        [](State& state) { return static_cast<torch::optim::SGDParamState&>(state).momentum_buffer(); });
  check(torch::optim::Adam(parameters()),
        [](State& state) { return static_cast<torch::optim::AdamParamState&>(state).exp_avg(); });
  check(torch::optim::AdamW(parameters()),
        [](State& state) { return static_cast<torch::optim::AdamWParamState&>(state).exp_avg(); });
  check(torch::optim::RMSprop(parameters(), torch::optim::RMSpropOptions(0.1).momentum(0.9)),
        [](State& state) { return static_cast<torch::optim::RMSpropParamState&>(state).momentum_buffer(); });
}

TEST(ReplaceParameter, CutsEveryTensorOfTheStateAndKeepsTheStepCount) {
  torch::Tensor before = torch::ones({3, 2}, torch::requires_grad());
  const torch::Tensor other = torch::ones({2}, torch::requires_grad());
  torch::optim::Adam optimizer({other, before}, torch::optim::AdamOptions(0.1).amsgrad(true));
  before.mutable_grad() = torch::arange(6, torch::kFloat).reshape({3, 2});
  optimizer.step();
  optimizer.step();
  const torch::Tensor after = torch::zeros({2, 1}, torch::requires_grad());
  const std::vector<TensorCut> cuts = {{.dimension = 0, .kept = {0, 2}}, {.dimension = 1, .kept = {1}}};
  const auto& old = static_cast<torch::optim::AdamParamState&>(*optimizer.state().at(before.unsafeGetTensorImpl()));
  const torch::Tensor average = old.exp_avg().clone();
  replace_parameter(optimizer, before, after, cuts);
  EXPECT_TRUE(optimizer.param_groups()[0].params()[0].is_same(other));
  EXPECT_TRUE(optimizer.param_groups()[0].params()[1].is_same(after));
  EXPECT_EQ(optimizer.state().count(before.unsafeGetTensorImpl()), 0U);
  const auto& state = static_cast<torch::optim::AdamParamState&>(*optimizer.state().at(after.unsafeGetTensorImpl()));
  EXPECT_EQ(state.step(), 2);
  EXPECT_TRUE(state.exp_avg().equal(torch::stack({average[0][1], average[2][1]}).reshape({2, 1})));
  EXPECT_EQ(state.exp_avg_sq().sizes(), after.sizes());
  EXPECT_EQ(state.max_exp_avg_sq().sizes(), after.sizes());
}

TEST(ProblemWithCutting, NamesOptimizersOfUnknownState) {
  const std::vector<torch::Tensor> parameters = {torch::ones({3}, torch::requires_grad())};
  EXPECT_NE(problem_with_cutting(torch::optim::LBFGS(parameters)), "");
  EXPECT_EQ(problem_with_cutting(torch::optim::AdamW(parameters)), "");
}

}  // namespace
}  // namespace podaq
