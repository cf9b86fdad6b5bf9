#include "study/train_state.h"

#include <ATen/Generator.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "compress/checkpoint_tensors.h"
#include "podaq/core/error.h"
#include "podaq/core/text.h"

namespace podaq::study_detail {
namespace {

using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

constexpr std::string_view format_name = "podaq training state 1";

std::filesystem::path state_file(const std::filesystem::path& folder) {
  return folder / "training";
}

std::filesystem::path compressor_file(const std::filesystem::path& folder, std::int64_t epoch) {
  return folder / concat("compressor-", epoch);
}

[[noreturn]] void refuse_damaged(const std::filesystem::path& path) {
  throw Error(ErrorCode::format, concat("training state '", path.string(),
                                        "' is damaged or none; delete its folder to train from the start"));
}

torch::Tensor doubles(const std::vector<double>& numbers) {
  return torch::tensor(numbers, torch::kDouble);
}

torch::Tensor generator_state(const GraphModule& model) {
  if (!model.generator()) return torch::empty({0}, torch::kByte);
  at::Generator generator = *model.generator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(GraphModule& model, const torch::Tensor& state) {
  if (!model.generator() || state.numel() == 0) return;
  at::Generator generator = *model.generator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

std::optional<InputArchive> open_state(const std::filesystem::path& folder) {
  const std::filesystem::path path = state_file(folder);
  if (!std::filesystem::exists(path)) return std::nullopt;
  std::optional<InputArchive> archive = compress_detail::read_archive(path);
  if (!archive || compress_detail::read_string(*archive, "format") != format_name) refuse_damaged(path);
  return archive;
}

}  // namespace

void keep(const std::filesystem::path& folder, const TrainOptions& options, const GraphModule& model,
          const Compressor& compressor, const TrainState& state) {
  std::filesystem::create_directories(folder);
  compressor.save_checkpoint(compressor_file(folder, compressor.epoch()));

  OutputArchive archive;
  archive.write("format", c10::IValue(std::string(format_name)));
  archive.write("options", c10::IValue(to_text(options)));
  archive.write("epoch", c10::IValue(compressor.epoch()));
  archive.write("chosen_epoch", c10::IValue(static_cast<std::int64_t>(state.result.chosen_epoch)));
  archive.write("steps", c10::IValue(state.result.steps));
  archive.write("numbers", doubles({state.result.seconds, state.best_accuracy}), /*is_buffer=*/true);
  archive.write("validation", doubles(state.result.validation_accuracy), /*is_buffer=*/true);
  archive.write("generator", generator_state(model), /*is_buffer=*/true);
  compress_detail::write_tensors(archive, "best", compress_detail::named(state.best));
  compress_detail::write_archive(archive, state_file(folder));

  std::error_code ignored;  // a file too many does no harm
  std::filesystem::remove(compressor_file(folder, compressor.epoch() - 1), ignored);
}

void resume(const std::filesystem::path& folder, const TrainOptions& options, GraphModule& model,
            Compressor& compressor, TrainState& state) {
  std::optional<InputArchive> archive = open_state(folder);
  if (!archive) return;
  if (compress_detail::read_string(*archive, "options") != to_text(options))
    throw Error(ErrorCode::invalid_argument,
                concat("training state '", state_file(folder).string(),
                       "' was written with other training options; delete its folder to train from the start"));
  compressor.load_checkpoint(compressor_file(folder, compress_detail::read_integer(*archive, "epoch")));

  torch::Tensor numbers;
  torch::Tensor validation;
  torch::Tensor generator;
  archive->read("numbers", numbers, /*is_buffer=*/true);
  archive->read("validation", validation, /*is_buffer=*/true);
  archive->read("generator", generator, /*is_buffer=*/true);
  const auto* accuracies = validation.const_data_ptr<double>();
  state.result.validation_accuracy.assign(accuracies, accuracies + validation.numel());
  state.result.chosen_epoch = static_cast<std::size_t>(compress_detail::read_integer(*archive, "chosen_epoch"));
  state.result.steps = compress_detail::read_integer(*archive, "steps");
  state.result.seconds = numbers[0].item<double>();
  state.best_accuracy = numbers[1].item<double>();
  state.best.clear();
  for (const auto& [name, tensor] : compress_detail::read_tensors(*archive, "best")) state.best.emplace(name, tensor);
  set_generator_state(model, generator);
}

}  // namespace podaq::study_detail

namespace podaq {

std::int64_t trained_epochs(const std::filesystem::path& checkpoint) {
  auto archive = study_detail::open_state(checkpoint);
  return archive ? compress_detail::read_integer(*archive, "epoch") : 0;
}

}  // namespace podaq
