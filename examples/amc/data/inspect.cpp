#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "amc/data/verbs.h"
#include "podaq/data/radioml_file.h"

namespace podaq::amc {
namespace {

void run(const std::string& file) {
  const RadioMlReader reader(file);
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> cells;
  for (std::size_t row = 0; row < reader.labels().size(); ++row) ++cells[{reader.labels()[row], reader.snrs_db()[row]}];
  const auto [fewest, most] = std::ranges::minmax_element(cells, {}, [](const auto& cell) { return cell.second; });
  fmt::print("{} frames of {} samples\n", reader.size(), reader.frame_length());
  fmt::print("{} classes: {}\n", reader.class_names().size(), fmt::join(reader.class_names(), ", "));
  fmt::print("{} SNRs in dB: {}\n", reader.snr_grid().size(), fmt::join(reader.snr_grid(), ", "));
  fmt::print("{} pairs of class and SNR occur, with {} to {} frames each\n", cells.size(), fewest->second,
             most->second);
}

}  // namespace

void add_inspect(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("inspect", "Show what a file holds");
  auto file = std::make_shared<std::string>();
  verb->add_option("file", *file, "An HDF5 file of the layout of RadioML 2018.01A")->required();
  verb->callback([file] { run(*file); });
}

}  // namespace podaq::amc
