import { AggregationTemporality, MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";

export { MeterProvider };

/** A reader that is asked by the test. */
export class TestReader extends MetricReader {
  constructor(temporality: AggregationTemporality = AggregationTemporality.CUMULATIVE) {
    super({ aggregationTemporalitySelector: () => temporality });
  }

  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

/** All that a reader is told, as `name{attribute=value,...}` to value; the limiter's name and type are left out. */
export async function collect(reader: MetricReader): Promise<Map<string, unknown>> {
  const { resourceMetrics, errors } = await reader.collect();
  if (errors.length > 0) throw errors[0];
  const series = new Map<string, unknown>();
  for (const { metrics } of resourceMetrics.scopeMetrics) {
    for (const { descriptor, dataPoints } of metrics) {
      for (const { attributes, value } of dataPoints) {
        const { "headgate.limiter.name": name, "headgate.limiter.type": _type, ...rest } = attributes;
        const labels = Object.values(rest).map(String).join(",");
        series.set(
          `${String(name)} ${descriptor.name.replace("headgate.", "")}${labels === "" ? "" : ` ${labels}`}`,
          value,
        );
      }
    }
  }
  return series;
}

/** A meter of a real SDK, and a reader of it. */
export function measured(temporality?: AggregationTemporality) {
  const reader = new TestReader(temporality);
  const provider = new MeterProvider({ readers: [reader] });
  const meter = provider.getMeter("headgate");
  return { reader, provider, meter, read: () => collect(reader) };
}

/** The part of what was collected that has a certain start, without it. */
export function under(series: ReadonlyMap<string, unknown>, start: string): Record<string, unknown> {
  return Object.fromEntries(
    [...series]
      .filter(([key]) => key.startsWith(start))
      .map(([key, value]) => [key.slice(start.length), value]),
  );
}
