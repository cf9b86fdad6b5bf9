// The time of one training step (forward, loss, backward, SGD): through a user's own module (libtorch), through what
// capture makes of it (dense), in the middle of a long ramp to 90 % (prune), and with pruned weights and fake
// quantization (prune_quantize). All are measured in turn, so that they see the same machine; each has parameters of
// its own. Prints medians of elapsed time and of the processor's, and their ratios to `dense`. Few steps of a ramp
// choose new masks: they are measured apart (prune_change), and `prune` counts them by their share of the ramp.
//
//   training_step [--json FILE] [--rounds N] [--batch N] [--threads N]
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compress/recipe_plan.h"
#include "podaq/capture/capture.h"
#include "podaq/compress/compressor.h"

namespace {

namespace nn = torch::nn;

struct Options {
  std::string json;
  int rounds = 15;
  int batch = 64;
  int threads = 1;
};

// VGG10-1D for `samples` I/Q samples: seven blocks of convolution, batch norm, ReLU, max-pooling, then three linears.
nn::Sequential vgg10(std::int64_t samples) {
  nn::Sequential net;
  for (std::int64_t block = 0; block < 7; ++block) {
    net->push_back(nn::Conv1d(nn::Conv1dOptions(block == 0 ? 2 : 64, 64, 3).padding(1).bias(false)));
    net->push_back(nn::BatchNorm1d(64));
    net->push_back(nn::ReLU());
    net->push_back(nn::MaxPool1d(2));
  }
  net->push_back(nn::Flatten());
  for (const std::int64_t inputs : {samples / 2, std::int64_t{128}}) {
    net->push_back(nn::Linear(nn::LinearOptions(inputs, 128).bias(false)));
    net->push_back(nn::BatchNorm1d(128));
    net->push_back(nn::ReLU());
  }
  net->push_back(nn::Linear(128, 24));
  return net;
}

// A small VGG for 28x28 images.
nn::Sequential vgg_2d() {
  nn::Sequential net;
  for (const auto& [inputs, outputs] : {std::pair<std::int64_t, std::int64_t>{1, 32}, {32, 64}}) {
    for (const std::int64_t channels : {inputs, outputs}) {
      net->push_back(nn::Conv2d(nn::Conv2dOptions(channels, outputs, 3).padding(1)));
      net->push_back(nn::BatchNorm2d(outputs));
      net->push_back(nn::ReLU());
    }
    net->push_back(nn::MaxPool2d(2));
  }
  net->push_back(nn::Flatten());
  net->push_back(nn::Linear(64 * 7 * 7, 10));
  return net;
}

using Step = std::function<void()>;

// What a batch is.
struct Batch {
  torch::Tensor data, target;
};

template <typename Model>
void train_step(Model& model, torch::optim::SGD& optimizer, const Batch& batch) {
  optimizer.zero_grad();
  nn::functional::cross_entropy(model->forward(batch.data), batch.target).backward();
  optimizer.step();
}

template <typename Model>
Step step_of(Model model, const Batch& batch) {
  auto optimizer = std::make_shared<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions(0.01));
  return [=]() mutable { train_step(model, *optimizer, batch); };
}

constexpr int warm_up_rounds = 3;

// With a compressor whose stages are given in optimizer steps.
Step compressed_step_of(std::shared_ptr<podaq::GraphModule> model, const Batch& batch, const podaq::Recipe& recipe) {
  auto optimizer = std::make_shared<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions(0.01));
  auto compressor = std::make_shared<podaq::Compressor>(model, recipe);
  compressor->attach(*optimizer, {.steps_per_epoch = 1});
  return [=]() mutable {
    train_step(model, *optimizer, batch);
    compressor->step();
    compressor->end_epoch();
  };
}

struct Time {
  double elapsed_ms = 0;
  double processor_ms = 0;  // of all threads
};

Time time_of(const Step& step) {
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t processor_start = std::clock();
  step();
  const double processor = static_cast<double>(std::clock() - processor_start) * 1000 / CLOCKS_PER_SEC;
  return {std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count(), processor};
}

double median(const std::vector<Time>& times, double Time::*kind) {
  std::vector<double> values;
  for (const Time& time : times) values.push_back(time.*kind);
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Row {
  std::string net, variant;
  Time median;
};

constexpr double ramp_steps = 4000;

// The part of the ramp's steps that choose new masks, by the library's own plan.
double share_of_changes(const podaq::Recipe& recipe) {
  const auto options = podaq::compress_detail::plan_schedule(recipe, 0, static_cast<std::int64_t>(ramp_steps), 1);
  return 1.0 / static_cast<double>(options.schedule.update_every);
}

std::vector<Row> measure(const std::string& name, nn::Sequential net, const torch::Tensor& data, int classes,
                         int rounds) {
  const Batch batch{.data = data, .target = torch::randint(classes, {data.size(0)}, torch::kLong)};
  const auto captured = [&] {
    auto model = podaq::capture(std::dynamic_pointer_cast<nn::SequentialImpl>(net->clone()), data.slice(0, 0, 2));
    model->train();
    return model;
  };
  net->train();
  const podaq::Recipe prune{.epochs = {.prune = ramp_steps}, .prune = podaq::PruneRecipe{.sparsity = 0.9}};
  podaq::Recipe prune_change = prune;
  prune_change.prune->update_every = 1;
  const podaq::Recipe prune_quantize{.epochs = {.prune = 1, .quantize = ramp_steps},
                                     .prune = podaq::PruneRecipe{.sparsity = 0.9},
                                     .quantize = podaq::QuantizeRecipe{}};
  const std::vector<std::pair<std::string, Step>> variants = {
      {"libtorch", step_of(net, batch)},
      {"dense", step_of(captured(), batch)},
      {"prune", compressed_step_of(captured(), batch, prune)},
      {"prune_change", compressed_step_of(captured(), batch, prune_change)},
      {"prune_quantize", compressed_step_of(captured(), batch, prune_quantize)}};
  std::map<std::string, std::vector<Time>> times;
  for (int round = 0; round < rounds + warm_up_rounds; ++round)
    for (const auto& [variant, step] : variants)
      if (const Time time = time_of(step); round >= warm_up_rounds) times[variant].push_back(time);
  const double share = share_of_changes(prune);
  const auto median_of = [&](const std::string& variant, double Time::*kind) {
    const double value = median(times.at(variant), kind);
    return variant == "prune" ? value + (median(times.at("prune_change"), kind) - value) * share : value;
  };
  std::vector<Row> rows;
  for (const auto& [variant, step] : variants)
    rows.push_back({name, variant, {median_of(variant, &Time::elapsed_ms), median_of(variant, &Time::processor_ms)}});
  return rows;
}

void write_json(const std::string& path, const std::vector<Row>& rows) {
  std::ofstream file(path);
  file << "[\n";
  for (std::size_t i = 0; i < rows.size(); ++i)
    file << "  {\"net\": \"" << rows[i].net << "\", \"variant\": \"" << rows[i].variant
         << "\", \"median_ms\": " << rows[i].median.elapsed_ms
         << ", \"median_processor_ms\": " << rows[i].median.processor_ms << (i + 1 < rows.size() ? "},\n" : "}\n");
  file << "]\n";
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view key = argv[i];
    if (key == "--json") options.json = argv[i + 1];
    if (key == "--rounds") options.rounds = std::max(1, std::atoi(argv[i + 1]));
    if (key == "--batch") options.batch = std::max(2, std::atoi(argv[i + 1]));
    if (key == "--threads") options.threads = std::max(1, std::atoi(argv[i + 1]));
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  torch::manual_seed(1);
  torch::set_num_threads(options.threads);
  std::vector<Row> rows;
  const auto add = [&](std::vector<Row> more) { rows.insert(rows.end(), more.begin(), more.end()); };
  for (const std::int64_t samples : {1024, 128})
    add(measure("vgg10-1d-" + std::to_string(samples), vgg10(samples), torch::randn({options.batch, 2, samples}), 24,
                options.rounds));
  add(measure("vgg-2d-28x28", vgg_2d(), torch::randn({options.batch, 1, 28, 28}), 10, options.rounds));
  Time dense;
  for (const Row& row : rows) {
    if (row.variant == "libtorch") dense = (&row + 1)->median;
    const Time time = row.median;
    std::printf("%-16s %-14s %9.3f ms (%5.3f of dense)  processor %9.3f ms (%5.3f)\n", row.net.c_str(),
                row.variant.c_str(), time.elapsed_ms, time.elapsed_ms / dense.elapsed_ms, time.processor_ms,
                time.processor_ms / dense.processor_ms);
  }
  std::erase_if(rows, [](const Row& row) { return row.variant == "prune_change"; });  // part of `prune`
  if (!options.json.empty()) write_json(options.json, rows);
}
