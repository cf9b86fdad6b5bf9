#pragma once

#include <string>

namespace podaq::study_detail {

/// Throws Error(unsupported) where the program gnuplot cannot be started, saying what to install.
void require_gnuplot();

/// Text for a script, in quotes.
[[nodiscard]] std::string gnuplot_quoted(const std::string& text);

/// What people and their screen readers know a plot by.
struct PlotText {
  std::string id;           ///< Unique in its page; a letter, then letters and digits.
  std::string title;        ///< A few words.
  std::string description;  ///< What it shows, in a sentence.
};

/// Runs a gnuplot script that sets neither terminal nor output, and makes an <svg> element for an HTML page of it.
/// Colours follow the page: black becomes its currentColor, "#0000ff" var(--grid), and "#0N0000" var(--series-N) for N
/// from 1 to 9. Throws as require_gnuplot does, and Error(io) with what gnuplot says where it fails.
[[nodiscard]] std::string plot_svg(const std::string& script, const PlotText& text);

}  // namespace podaq::study_detail
