#include "study/network_file.h"

#include <torch/serialize/archive.h>

#include <optional>
#include <string>

#include "compress/checkpoint_tensors.h"
#include "podaq/core/error.h"
#include "podaq/core/text.h"
#include "podaq/prune/rewinding.h"

namespace podaq::study_detail {

void save_network(const GraphModule& model, const std::filesystem::path& path) {
  torch::serialize::OutputArchive archive;
  compress_detail::write_tensors(archive, "network", compress_detail::named(take_snapshot(model)));
  compress_detail::write_archive(archive, path);
}

void load_network(GraphModule& model, const std::filesystem::path& path) {
  std::optional<torch::serialize::InputArchive> archive = compress_detail::read_archive(path);
  if (!archive)
    throw Error(ErrorCode::format, concat("network '", path.string(), "' is damaged; delete it to train it again"));
  const compress_detail::NamedTensors saved = compress_detail::read_tensors(*archive, "network");
  compress_detail::require_fitting(path, compress_detail::named(take_snapshot(model)), saved);
  rewind(model, {saved.begin(), saved.end()});
}

}  // namespace podaq::study_detail
