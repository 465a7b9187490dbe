import { type Attributes, type Context, context, diag, type Tracer, trace } from "@opentelemetry/api";
import { systemClock } from "headgate";
import { checkMethods, checkNumber, checkOptionNames } from "../../src/internal.js";
import type { TracingOptions } from "./options.js";

/** A wait that may become a span. */
export interface WaitSpan {
  end(permitCount: number, result: string, reason: string | undefined): void;
}

/** Makes spans of real waits, when they are over and it is known how long they were. */
export class WaitTracing {
  readonly #tracer: Tracer | undefined;
  readonly #minWaitMs: number;
  readonly #name: string;
  readonly #type: string;
  #hasComplained = false;
  #isOver = false;

  constructor(options: TracingOptions, name: string, type: string) {
    checkOptionNames(options, ["tracer", "minWaitMs"], "options.tracing");
    const { tracer, minWaitMs = 1 } = options;
    if (tracer !== undefined) checkMethods("options.tracing.tracer", tracer, ["startSpan"]);
    const allowed = "a finite number of at least 0";
    checkNumber(
      "options.tracing.minWaitMs",
      minWaitMs,
      allowed,
      (ms) => ms >= 0 && ms < Number.POSITIVE_INFINITY,
    );
    this.#tracer = tracer;
    this.#minWaitMs = minWaitMs;
    this.#name = name;
    this.#type = type;
  }

  /** A wait begins; undefined when nobody traces what waits. */
  begin(): WaitSpan | undefined {
    return this.#safely(() => {
      const parent = context.active();
      if (trace.getSpan(parent)?.isRecording() !== true) return undefined;
      const startTime = systemClock.now();
      return {
        end: (permitCount, result, reason) =>
          this.#safely(() => this.#make(parent, startTime, permitCount, result, reason)),
      };
    });
  }

  /** Makes no more spans. */
  stop(): void {
    this.#isOver = true;
  }

  #make(
    parent: Context,
    startTime: number,
    permitCount: number,
    result: string,
    reason: string | undefined,
  ): void {
    const endTime = systemClock.now();
    if (this.#isOver || endTime - startTime < this.#minWaitMs) return;
    const attributes: Attributes = {
      "headgate.limiter.name": this.#name,
      "headgate.limiter.type": this.#type,
      "headgate.permit.count": permitCount,
      "headgate.limiter.result": result,
    };
    if (reason !== undefined) attributes["headgate.rejection.reason"] = reason;
    // A refusal is an ordinary answer, so it is no error of the span.
    (this.#tracer ?? trace.getTracer("headgate"))
      .startSpan(`acquire ${this.#name}`, { startTime, attributes }, parent)
      .end(endTime);
  }

  /** What a tracer throws is for whoever looks after tracing: a lease would be lost in it, and its caller would wait for ever. */
  #safely<Result>(action: () => Result): Result | undefined {
    try {
      return action();
    } catch (error) {
      if (!this.#hasComplained) diag.error("headgate: a wait cannot be traced", error);
      this.#hasComplained = true;
      return undefined;
    }
  }
}
