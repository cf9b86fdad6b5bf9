#include "amc/synthesis/synthesis_file.h"

#include <algorithm>

#include "podaq/data/radioml_writer.h"

namespace podaq::amc {

void synthesize_to_file(const SynthesisOptions& options, const std::filesystem::path& path,
                        const SynthesisProgress& progress) {
  constexpr std::int64_t block_floats = (std::int64_t{32} << 20) / std::int64_t{sizeof(float)};
  DatasetSynthesizer synthesizer(options);
  RadioMlLayout layout{.size = synthesizer.size(), .frame_length = options.frame_length};
  for (const auto& named : classes(options.set)) layout.class_names.emplace_back(named.name);
  layout.snr_grid.assign(options.snrs_db.begin(), options.snrs_db.end());
  RadioMlWriter writer(path, layout);

  const std::int64_t frame_size = std::int64_t{2} * options.frame_length;
  const std::int64_t block = std::clamp<std::int64_t>(block_floats / frame_size, 1, layout.size);
  std::vector<float> frames(static_cast<std::size_t>(block * frame_size));
  std::vector<std::int32_t> labels(static_cast<std::size_t>(block));
  std::vector<std::int32_t> snrs_db(labels.size());
  for (std::int64_t first = 0; first < layout.size; first += block) {
    const auto count = static_cast<std::size_t>(std::min(block, layout.size - first));
    const auto rows = std::span(frames).first(count * static_cast<std::size_t>(frame_size));
    synthesizer.make(first, rows, std::span(labels).first(count), std::span(snrs_db).first(count), progress);
    writer.append(rows, std::span(labels).first(count), std::span(snrs_db).first(count));
  }
  writer.finish();
}

}  // namespace podaq::amc
