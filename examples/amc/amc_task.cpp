#include "amc/amc_task.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "amc/itu_score.h"
#include "amc/networks.h"
#include "amc/synthesis/impairments.h"
#include "amc/synthesis/synthesizer.h"
#include "podaq/capture/capture.h"
#include "podaq/core/cancellation.h"
#include "podaq/core/error.h"
#include "podaq/core/file.h"
#include "podaq/core/progress.h"
#include "podaq/core/sha256.h"
#include "podaq/core/text.h"

namespace podaq::amc {
namespace {

/// Frames for each pair of class and SNR.
struct Sizes {
  int train = 0, validation = 0, test = 0;
};

/// What distinguishes the presets.
struct Preset {
  ClassSet set = ClassSet::radioml2016;
  Sizes frames;
  double shared_epochs = 0;
  std::int64_t batch_size = 256;
};

Preset preset_of(const std::string& name) {
  if (name == "quick")
    return {.set = ClassSet::radioml2016, .frames = {.train = 200, .validation = 20, .test = 100}, .shared_epochs = 4};
  if (name == "full")
    return {.set = ClassSet::radioml2018, .frames = {.train = 128, .validation = 16, .test = 100}, .shared_epochs = 10};
  throw Error(ErrorCode::invalid_argument, concat("amc: unknown preset '", name, "'; there are quick and full"));
}

Sizes scaled(const Sizes& sizes, double scale) {
  if (!(scale > 0 && scale <= 100))
    throw Error(ErrorCode::invalid_argument, concat("amc: scale is ", scale, ", must lie in (0, 100]"));
  const auto part = [scale](int frames) { return std::max(1, static_cast<int>(std::lround(frames * scale))); };
  return {.train = part(sizes.train), .validation = part(sizes.validation), .test = part(sizes.test)};
}

/// Training, validation and test frames never share a generator key.
enum class SetKind : std::uint64_t { train, validation, test };

Dataset synthesize_set(const Preset& preset, const Impairments& impairments, std::uint64_t seed, SetKind purpose,
                       int frames, int threads) {
  constexpr const char* names[] = {"training", "validation", "test"};
  SynthesisOptions options =
      standard_options(preset.set, frames, 3 * seed + static_cast<std::uint64_t>(purpose), impairments);
  options.threads = threads;
  const auto total = classes(preset.set).size() * options.snrs_db.size() * static_cast<std::size_t>(frames);
  Progress progress(concat("synthesizing ", names[static_cast<std::size_t>(purpose)], " frames"), total);
  std::int64_t shown = 0;
  return synthesize(options, [&](std::int64_t done, std::int64_t) {
    throw_if_cancelled();
    progress.advance(static_cast<std::uint64_t>(done - shown));
    shown = done;
  });
}

/// What a network must fit.
struct FrameShape {
  std::int64_t length = 0;
  std::int64_t classes = 0;
};

TaskNetwork make_network(const FrameShape& frames, NetworkKind kind, std::uint64_t seed) {
  torch::manual_seed(seed);
  const auto [length, class_count] = frames;
  const auto finish = [length = frames.length](const auto& module) {
    return TaskNetwork{.module = module,
                       .forward = [module](const torch::Tensor& x) { return module->forward(x); },
                       .captured = capture(module, torch::zeros({2, 2, length}))};
  };
  switch (kind) {
    case NetworkKind::resnet:
      return finish(std::make_shared<ResNet>(length, class_count));
    case NetworkKind::separable:
      return finish(std::make_shared<SeparableNet>(class_count));
    case NetworkKind::ultra_light:
      return finish(std::make_shared<UltraLightNet>(class_count));
    case NetworkKind::vgg10:
      break;
  }
  return finish(std::make_shared<Vgg10>(length, class_count));
}

int whole_number_in(const std::string& key, const TaskWord& word) {
  constexpr double most = 1 << 30;
  const double number = number_in(key, word);
  if (number < 0 || number > most || number != std::floor(number))
    throw Error(ErrorCode::recipe, concat(word.origin, ": task.", key, " must be a whole number from 0 to 2^30"));
  return static_cast<int>(number);
}

}  // namespace

TaskOptions task_options(const TaskWords& words) {
  TaskOptions options;
  for (const auto& [key, word] : words) {
    if (key == "preset") {
      options.preset = word.text;
    } else if (key == "network") {
      if (!network_kinds().contains(word.text))
        throw Error(ErrorCode::recipe, concat(word.origin, ": task.network must be one of ", network_names()));
      options.network = network_kinds().at(word.text);
    } else if (key == "scale") {
      options.scale = number_in(key, word);
    } else if (key == "data") {
      options.data.file = word.text;
    } else if (key == "split") {
      options.data.split = word.text;
    } else if (key == "frames_per_cell") {
      options.data.frames_per_cell = whole_number_in(key, word);
    } else if (key == "memory_gib") {
      options.data.memory_gib = number_in(key, word);
    } else {
      refuse_key(key, word, "preset, network, scale, data, split, frames_per_cell, memory_gib");
    }
  }
  return options;
}

Task make_task(const TaskOptions& options) {
  Preset preset = preset_of(options.preset);
  preset.frames = scaled(preset.frames, options.scale);
  const std::filesystem::path folder =
      options.folder.empty() ? std::filesystem::path(PODAQ_EXAMPLES_FOLDER) / "amc" : options.folder;
  const bool recorded = !options.data.file.empty();
  if (recorded && options.scale != 1)
    throw Error(ErrorCode::invalid_argument, "amc: scale belongs to synthesized frames; a file has frames_per_cell");
  std::shared_ptr<FrameFile> file;
  FrameShape frames{.length = frame_length(preset.set),
                    .classes = static_cast<std::int64_t>(classes(preset.set).size())};
  if (recorded) {
    file = std::make_shared<FrameFile>(options.data);
    frames = {.length = file->reader().frame_length(),
              .classes = static_cast<std::int64_t>(file->reader().class_names().size())};
  }
  const std::filesystem::path impairments_file = folder / "impairments" / "radioml2016.toml";
  const Impairments impairments = load_impairments(impairments_file);
  const std::string network = name_of(options.network);
  const std::string synthesized = concat(preset.frames.train, " ", preset.frames.validation, " ", preset.frames.test,
                                         " impairments ", to_hexadecimal(sha256(read_file(impairments_file, 1 << 20))));

  Task task;
  task.name = concat("amc-", options.preset, options.network == NetworkKind::vgg10 ? "" : "-" + network,
                     recorded ? "-file" : "");
  task.description = concat("modulation classification, ", frames.classes, " classes, ", network);
  task.identity =
      concat("preset ", options.preset, " network ", network, " frames ", recorded ? file->identity() : synthesized);
  task.load_data = [=](std::uint64_t seed, int threads) {
    if (file) return file->load(seed);
    const auto make = [&](SetKind purpose, int count) {
      return synthesize_set(preset, impairments, seed, purpose, count, threads);
    };
    return TaskData{.train = make(SetKind::train, preset.frames.train),
                    .validation = make(SetKind::validation, preset.frames.validation),
                    .test = make(SetKind::test, preset.frames.test)};
  };
  task.make_network = [=](std::uint64_t seed) { return make_network(frames, options.network, seed); };
  task.training = {.batch_size = preset.batch_size, .learning_rate = 3e-3, .weight_decay = 2e-2};
  task.shared_epochs = preset.shared_epochs;
  task.strategies = load_strategies(folder / "recipes");
  task.figures = {{.name = "ITU score", .of_file = [](const Graph& graph) { return itu_score(itu_cost(graph)); }}};
  return task;
}

}  // namespace podaq::amc
