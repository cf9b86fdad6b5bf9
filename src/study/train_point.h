#pragma once

#include <filesystem>
#include <functional>

#include "podaq/study/study.h"
#include "study/study_plan.h"

namespace podaq::study_detail {

/// What a point needs besides its plan.
struct PointSurroundings {
  const Task& task;
  const TaskData& data;
  TaskNetwork network;                        ///< Untrained, of the point's seed; becomes the trained one's start.
  std::filesystem::path shared_network = {};  ///< Of the shared epochs; empty: the point starts untrained.
  std::filesystem::path teacher = {};         ///< The .podaq file; empty: none.
  StepCallback after_step = {};
};

/// Trains the dense epochs that several points start from, and keeps the network under ".network".
void train_shared(const SharedTraining& shared, const Task& task, const TaskData& data, const TaskNetwork& network,
                  const StepCallback& after_step);

/// Trains a point, or goes on with its training, converts, writes the ".podaq" file, and measures all but latencies.
[[nodiscard]] PointResult train_point(const Point& point, const PointSurroundings& surroundings);

}  // namespace podaq::study_detail
