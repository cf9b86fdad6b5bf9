#include "amc/classify/frame_classifier.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>

#include "amc_classify/sample_classifier.h"
#include "consumer/sample_network.h"
#include "podaq/format/file.h"
#include "support/expect_refused.h"
#include "support/temporary_folder.h"

namespace podaq::amc {
namespace {

Model stored(const Graph& graph) {
  const test::TemporaryFolder folder;
  save(graph, folder.path() / "net.podaq");
  return Model::load(folder.path() / "net.podaq");
}

TEST(FrameClassifier, ProbabilitiesAreTheSoftmaxOfAFrameOfPowerOne) {
  FrameClassifier classifier(stored(sample_classifier(2)));
  EXPECT_EQ(classifier.class_names(), (std::vector<std::string>{"in-phase", "quadrature", "negative"}));
  ASSERT_EQ(classifier.frame_length(), 2U);
  std::vector<float> frame = {30, 30, 40, 40};  // two samples 30 + 40i; scaled: 0.6 + 0.8i
  const auto probabilities = classifier.classify(frame);
  EXPECT_NEAR(std::accumulate(probabilities.begin(), probabilities.end(), 0.0), 1, 1e-12);
  EXPECT_NEAR(std::log(probabilities[1] / probabilities[0]), 1.6 - 1.2, 1e-5);
  EXPECT_NEAR(std::log(probabilities[0] / probabilities[2]), 2.4, 1e-5);
}

TEST(FrameClassifier, RefusesWhatIsNoClassifierOfSignals) {
  const auto refuse = [](const Graph& graph, const std::vector<std::string>& parts) {
    test::expect_refused([&] { FrameClassifier(stored(graph)); }, parts, ErrorCode::invalid_argument);
  };
  refuse(sample_network(), {"x {2}", "{2, L}"});
  refuse(sample_classifier(4, "a,b"), {"2 classes", "3 outputs"});
  refuse(sample_classifier(4, "a,b,c,d"), {"4 classes", "3 outputs"});
  Graph nameless = sample_classifier(4);
  nameless.metadata.clear();
  refuse(nameless, {"0 classes", "3 outputs"});
}

}  // namespace
}  // namespace podaq::amc
