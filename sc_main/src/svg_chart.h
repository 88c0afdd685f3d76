// Line charts as SVG text, without scripts, fonts or styles from elsewhere.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kb::cli {

/// A curve; points by ascending x.
struct ChartSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

/// One coordinate system. An axis is logarithmic when all its values are positive and the largest is at least 16 times
/// the smallest.
struct ChartPanel {
  std::string title;
  std::string x_label, y_label;
  std::vector<ChartSeries> series;
};

/// Panels below each other, with one legend: a series has the same colour and mark in each. The same bytes for the same
/// panels.
std::string svg_chart(const std::string& title, const std::vector<ChartPanel>& panels);

}  // namespace kb::cli
