// Writes the sample network to the file named on the command line.
#include <cstdio>

#include "podaq/format/file.h"
#include "sample_network.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: write_sample FILE\n", stderr);
    return 2;
  }
  podaq::save(sample_network(), argv[1]);
  return 0;
}
