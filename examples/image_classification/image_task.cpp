#include "image_classification/image_task.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <memory>
#include <utility>

#include "image_classification/cnn_a.h"
#include "podaq/capture/capture.h"
#include "podaq/data/idx.h"
#include "podaq/data/split.h"

namespace podaq::images {

TaskOptions task_options(const TaskWords& words) {
  TaskOptions options;
  for (const auto& [key, word] : words) {
    if (key != "data") refuse_key(key, word, "data");
    options.data = word.text;
  }
  return options;
}

Task make_task(const TaskOptions& options) {
  const std::filesystem::path folder =
      options.folder.empty() ? std::filesystem::path(PODAQ_EXAMPLES_FOLDER) / "image_classification" : options.folder;
  Task task;
  task.name = "images-quick";
  task.description = "Fashion-MNIST, CNN-A";
  task.identity = "CNN-A on the IDX files in " + options.data.string();
  task.load_data = [data = options.data](std::uint64_t seed, int) {
    ImageDatasets sets = load_fashion_mnist(data);
    const auto parts = stratified_split(sets.train, {.fractions = {0.9, 0.1}, .seed = seed});
    return TaskData{.train = subset(sets.train, parts.at(0)),
                    .validation = subset(sets.train, parts.at(1)),
                    .test = std::move(sets.test)};
  };
  task.make_network = [](std::uint64_t seed) {
    torch::manual_seed(seed);
    const auto module = std::make_shared<CnnA>(1, 28, 10);
    return TaskNetwork{.module = module,
                       .forward = [module](const torch::Tensor& x) { return module->forward(x); },
                       .captured = capture(module, torch::zeros({2, 1, 28, 28}))};
  };
  task.training = {.batch_size = 128, .learning_rate = 2e-3, .weight_decay = 2e-2};
  task.shared_epochs = 2;
  task.strategies = load_strategies(folder / "recipes");
  return task;
}

}  // namespace podaq::images
