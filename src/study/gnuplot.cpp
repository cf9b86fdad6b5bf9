#include "study/gnuplot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include "podaq/core/atomic_file.h"
#include "podaq/core/error.h"
#include "podaq/core/file.h"
#include "podaq/core/text.h"
#include "study/html_text.h"

extern char** environ;

namespace podaq::study_detail {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t largest_plot = 1 << 26;

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "podaq-plot-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw Error(ErrorCode::io, concat("cannot make a folder for plots: ", std::strerror(errno)));
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string text_in(const fs::path& path) {
  const std::vector<std::byte> bytes = read_file(path, largest_plot);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Runs gnuplot with one argument; what it says goes to the file `messages`.
int run_gnuplot(std::string argument, const fs::path& messages) {
  std::string program = "gnuplot";
  std::vector<char*> arguments = {program.data(), argument.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, messages.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t process = 0;
  const int problem = posix_spawnp(&process, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (problem != 0)
    throw Error(ErrorCode::unsupported,
                concat("plots need gnuplot, which cannot be started: ", std::strerror(problem),
                       "; on Debian: apt-get install gnuplot-nox, or ask for a report without plots"));
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// Colours are attributes in gnuplot's text; a page's variables and currentColor may stand there as well.
void follow_colours_of_page(std::string& svg) {
  replace_all(svg, "rgb(  0,   0,   0)", "currentColor");
  replace_all(svg, "rgb(0,0,0)", "currentColor");
  replace_all(svg, "\"black\"", "\"currentColor\"");
  replace_all(svg, "'white'", "'var(--page)'");
  replace_all(svg, "\"white\"", "\"var(--page)\"");
  replace_all(svg, "rgb(  0,   0, 255)", "var(--grid)");
  for (int series = 1; series <= 9; ++series) {
    const std::string variable = concat("var(--series-", series, ")");
    replace_all(svg, fmt::format("rgb(  {},   0,   0)", series), variable);
    replace_all(svg, fmt::format("rgb({},0,0)", series), variable);
  }
}

// Names hold for a page, where several plots stand.
void give_names_of_page(std::string& svg, const PlotText& text) {
  for (const char* before : {"id='", "id=\"", "href='#", "href=\"#", "url(#"})
    replace_all(svg, before, concat(before, text.id, "-"));
  const std::size_t start = svg.find("<svg");
  const std::size_t description_end = svg.find("</desc>");
  if (start == std::string::npos || description_end == std::string::npos)
    throw Error(ErrorCode::io, "gnuplot wrote no SVG that podaq can read");
  const std::size_t viewed = svg.find('>', start);
  const std::string opening = svg.substr(start + 4, viewed - start - 4);
  svg = fmt::format(
      R"(<svg role="img" aria-labelledby="{0}-title {0}-description"{1}><title id="{0}-title">{2}</title>)"
      R"(<desc id="{0}-description">{3}</desc>{4})",
      text.id, opening, html_escaped(text.title), html_escaped(text.description), svg.substr(description_end + 7));
}

}  // namespace

void require_gnuplot() {
  const ScratchFolder folder;
  if (run_gnuplot("--version", folder.path() / "messages") != 0)
    throw Error(ErrorCode::unsupported, "gnuplot does not run; repair it, or ask for a report without plots");
}

std::string gnuplot_quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') quoted += '\\';
    quoted += letter == '\n' ? ' ' : letter;
  }
  return quoted + '"';
}

std::string plot_svg(const std::string& script, const PlotText& text) {
  const ScratchFolder folder;
  const fs::path picture = folder.path() / "plot.svg";
  const std::string whole =
      concat("set terminal svg noenhanced size 860,480 dynamic font 'sans-serif,13' linewidth 1.3\nset output ",
             gnuplot_quoted(picture.string()), "\n", script, "\nset output\n");
  write_file_atomically(folder.path() / "script", std::as_bytes(std::span(whole)));
  const int status = run_gnuplot((folder.path() / "script").string(), folder.path() / "messages");
  if (status != 0 || !fs::exists(picture))
    throw Error(ErrorCode::io, concat("gnuplot cannot draw '", text.title, "': ", text_in(folder.path() / "messages")));
  std::string svg = text_in(picture);
  follow_colours_of_page(svg);
  give_names_of_page(svg, text);
  return svg;
}

}  // namespace podaq::study_detail
