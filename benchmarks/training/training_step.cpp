// The time of one training step (forward, loss, backward, SGD) through a user's own module and through what capture
// makes of it, measured in turn so that both see the same machine.
//
//   training_step [--json FILE] [--rounds N] [--batch N] [--threads N]
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "podaq/capture/capture.h"

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

template <typename Model>
Step step_of(Model model, torch::Tensor data, torch::Tensor target) {
  auto optimizer = std::make_shared<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions(0.01));
  return [=]() mutable {
    optimizer->zero_grad();
    nn::functional::cross_entropy(model->forward(data), target).backward();
    optimizer->step();
  };
}

double milliseconds(const Step& step) {
  const auto start = std::chrono::steady_clock::now();
  step();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Row {
  std::string net, variant;
  double median_ms = 0;
};

std::vector<Row> measure(const std::string& name, nn::Sequential net, const torch::Tensor& data, int classes,
                         int rounds) {
  const torch::Tensor target = torch::randint(classes, {data.size(0)}, torch::kLong);
  // Both own their parameters, or the second variant would continue the first one's training.
  auto twin = std::dynamic_pointer_cast<nn::SequentialImpl>(net->clone());
  auto captured = podaq::capture(twin, data.slice(0, 0, 2));
  net->train();
  captured->train();
  std::map<std::string, Step> steps = {{"libtorch", step_of(net, data, target)},
                                       {"dense", step_of(captured, data, target)}};
  std::map<std::string, std::vector<double>> times;
  for (int round = 0; round < rounds + 3; ++round)
    for (const auto& [variant, step] : steps)
      if (const double time = milliseconds(step); round >= 3) times[variant].push_back(time);
  std::vector<Row> rows;
  for (const auto& [variant, values] : times) rows.push_back({name, variant, median(values)});
  return rows;
}

void write_json(const std::string& path, const std::vector<Row>& rows) {
  std::ofstream file(path);
  file << "[\n";
  for (std::size_t i = 0; i < rows.size(); ++i)
    file << "  {\"net\": \"" << rows[i].net << "\", \"variant\": \"" << rows[i].variant
         << "\", \"median_ms\": " << rows[i].median_ms << (i + 1 < rows.size() ? "},\n" : "}\n");
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
  for (const Row& row : rows)
    std::printf("%-16s %-10s %9.3f ms\n", row.net.c_str(), row.variant.c_str(), row.median_ms);
  if (!options.json.empty()) write_json(options.json, rows);
}
