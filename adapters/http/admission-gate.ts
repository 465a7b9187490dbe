import { type Clock, type LeaseOutcome, type RejectionReason, systemClock } from "headgate";
import {
  checkBoolean,
  checkChoice,
  checkDuration,
  checkFunction,
  checkMethods,
  checkNumber,
  checkOptionNames,
  wrongType,
} from "../../src/internal.js";
import type { AdmissionEvent, AdmissionOptions, AdmissionStatistics } from "./admission-options.js";
import type { AdmissionRequest, RequestView } from "./admission-request.js";
import { ClientIdentity, hasIdentity, missingIdentity } from "./client-identity.js";
import { Passage } from "./passage.js";
import { PolicyGate } from "./policy.js";
import { PressureGauge } from "./pressure.js";
import type { FieldStyle } from "./rate-limit-fields.js";
import { checkRejectOptions, mergeRejectOptions, RefusalTemplate, type Rejection } from "./rejection.js";
import { keepPassage, latestPassage } from "./request-passages.js";

const OPTION_NAMES = [
  "policies",
  "client",
  "priorities",
  "priority",
  "deadline",
  "minRemainingMs",
  "hold",
  "maxHoldMs",
  "pressure",
  "reject",
  "headers",
  "exposeHeaders",
  "skipPreflight",
  "onReject",
  "onError",
  "observe",
  "clock",
  "random",
];
const PRIORITIES: readonly string[] = ["critical", "high", "normal", "low"];

/** What all requests of an admission have in common: the options, checked, and the counts. */
export class AdmissionGate<Raw> {
  readonly policies: readonly PolicyGate<Raw>[];
  /** Tells clients apart; undefined when no policy wants that. */
  readonly identity: ClientIdentity<Raw> | undefined;
  readonly deadline: AdmissionOptions<Raw>["deadline"];
  readonly minRemainingMs: number;
  readonly holdsHandler: boolean;
  readonly maxHoldMs: number | undefined;
  readonly pressure: PressureGauge | undefined;
  /** For refusals that no policy makes. */
  readonly refusal: RefusalTemplate;
  readonly headers: FieldStyle;
  readonly exposeHeaders: boolean;
  readonly isOpenOnError: boolean;
  readonly clock: Clock;
  readonly random: () => number;
  readonly #priorities: readonly string[];
  readonly #usual: string | undefined;
  readonly #priority: AdmissionOptions<Raw>["priority"];
  readonly #skipsPreflight: boolean;
  readonly #onReject: AdmissionOptions<Raw>["onReject"];
  readonly #observe: AdmissionOptions<Raw>["observe"];
  readonly #shedBy: (AdmissionStatistics["shedBy"][number] & { count: number })[] = [];
  readonly #quiet: (() => void)[] = [];
  isDraining = false;
  active = 0;
  queued = 0;
  #admitted = 0;
  #completed = 0;
  #failed = 0;
  #aborted = 0;
  #shed = 0;
  #deadlineExpired = 0;
  #deliveredInTime = 0;
  #clientGone = 0;
  #holdExpired = 0;
  #limiterErrors = 0;

  constructor(options: AdmissionOptions<Raw>) {
    checkOptionNames(options, OPTION_NAMES);
    const { policies, client, priorities = PRIORITIES, minRemainingMs = 0, clock = systemClock } = options;
    if (!Array.isArray(policies) || policies.length === 0) {
      throw wrongType("options.policies", "a list of at least one policy", policies);
    }
    checkOptions(options);
    this.clock = clock;
    this.random = options.random ?? Math.random;
    this.#priorities = [...priorities];
    this.#priority = options.priority;
    const usual = priorities.includes("normal") ? "normal" : priorities.at(-1);
    this.#usual = options.priority === undefined ? undefined : usual;
    const gates: PolicyGate<Raw>[] = [];
    const names = new Set<string>();
    for (const [i, policy] of policies.entries()) {
      const defaults = { reject: options.reject, clock, priorities };
      const gate = new PolicyGate<Raw>(policy, `options.policies[${i}]`, defaults);
      if (names.has(gate.name))
        throw new TypeError(`options.policies has two policies named "${gate.name}".`);
      names.add(gate.name);
      gates.push(gate);
    }
    this.policies = gates;
    const identity = client === undefined ? undefined : new ClientIdentity<Raw>(client, "options.client");
    if (gates.some(({ scope }) => scope === "client")) {
      if (client === undefined || !hasIdentity(client)) throw missingIdentity("options.client");
      this.identity = identity;
    }
    this.deadline = options.deadline;
    this.minRemainingMs = minRemainingMs;
    this.holdsHandler = options.hold === "handler";
    this.maxHoldMs = options.maxHoldMs;
    const general = mergeRejectOptions({ message: "Temporarily unavailable" }, options.reject);
    this.refusal = new RefusalTemplate(general, { isQuota: false, isRate: false });
    this.headers = options.headers ?? "ratelimit";
    this.exposeHeaders = options.exposeHeaders === true;
    this.#skipsPreflight = options.skipPreflight === true;
    this.#onReject = options.onReject;
    this.isOpenOnError = options.onError === "open";
    this.#observe = options.observe;
    this.pressure =
      options.pressure === undefined
        ? undefined
        : new PressureGauge(options.pressure, clock, "options.pressure");
  }

  /**
   * Takes a request in; one that is taken in already goes on as it is.
   *
   * @param isDescribed - Whether a refusal is to be described, although nobody else wants to know of it.
   */
  begin(view: RequestView<Raw>, isDescribed: boolean = this.isObserved): Passage<Raw> {
    const passage = new Passage(this, view, isDescribed);
    const { progress } = this.passageOf(view.identity) ?? {};
    // One that is over, or was refused, says nothing about the same request when it is offered again.
    if (progress === "asking" || progress === "held" || progress === "exempt") return passage.exempt();
    keepPassage(view.identity, passage);
    return passage.start();
  }

  /** The passage of a request through this admission; undefined when it has not come here. */
  passageOf(raw: object): Passage<Raw> | undefined {
    for (let one = latestPassage(raw); one !== undefined; one = one.earlier) {
      if (one.isOf(this)) return one as Passage<Raw>;
    }
    return undefined;
  }

  /** Whether a request is let through without asking anybody. */
  skips(view: RequestView<Raw>): boolean {
    return (
      this.#skipsPreflight &&
      view.method === "OPTIONS" &&
      view.header("access-control-request-method") !== undefined
    );
  }

  /** The priority of a request; undefined when there are none. */
  priorityOf(view: AdmissionRequest<Raw>): string | undefined {
    if (this.#priority === undefined) return undefined;
    const priority = this.#priority(view);
    return priority !== undefined && this.#priorities.includes(priority) ? priority : this.#usual;
  }

  /** The priority as limiters want it: higher goes first. */
  rankOf(priority: string | undefined): number {
    return priority === undefined ? 0 : this.#priorities.length - this.#priorities.indexOf(priority);
  }

  /** Whether somebody wants to know of each refusal. */
  get isObserved(): boolean {
    return this.#onReject !== undefined || this.#observe !== undefined;
  }

  countAdmitted(request: AdmissionRequest<Raw>, waitedMs: number): void {
    this.active += 1;
    this.#admitted += 1;
    if (this.#observe !== undefined) this.#tell({ type: "admitted", request, waitedMs });
  }

  countShed(
    rejection: Rejection | undefined,
    policy: string | undefined,
    reason: RejectionReason,
    priority: string | undefined,
  ): void {
    this.#shed += 1;
    if (reason === "deadline_expired" || reason === "deadline_unmet") this.#deadlineExpired += 1;
    // There are few, and looking through them allocates nothing.
    const known = this.#shedBy.find(
      (one) => one.policy === policy && one.reason === reason && one.priority === priority,
    );
    if (known === undefined) this.#shedBy.push({ policy, reason, priority, count: 1 });
    else known.count += 1;
    if (rejection === undefined) return;
    try {
      this.#onReject?.(rejection);
    } catch (error) {
      this.#tell({ type: "error", error, request: undefined });
    }
    this.#tell({ type: "shed", rejection });
  }

  countEnded(
    request: AdmissionRequest<Raw>,
    outcome: LeaseOutcome,
    isAborted: boolean,
    deadlineAt: number,
  ): void {
    if (isAborted) this.#aborted += 1;
    else if (outcome === "failure" || outcome === "dropped") this.#failed += 1;
    else {
      this.#completed += 1;
      if (deadlineAt !== Number.POSITIVE_INFINITY && this.clock.now() <= deadlineAt)
        this.#deliveredInTime += 1;
    }
    if (this.#observe !== undefined) this.#tell({ type: "ended", request, outcome });
  }

  countGone(request: AdmissionRequest<Raw>): void {
    this.#clientGone += 1;
    this.#tell({ type: "client_gone", request });
  }

  countHoldExpired(request: AdmissionRequest<Raw>): void {
    this.#holdExpired += 1;
    this.#tell({ type: "hold_expired", request });
  }

  countLimiterError(error: unknown, request: AdmissionRequest<Raw>): void {
    this.#limiterErrors += 1;
    this.#tell({ type: "error", error, request });
  }

  noteError(error: unknown, request: AdmissionRequest<Raw>): void {
    this.#tell({ type: "error", error, request });
  }

  #tell(event: AdmissionEvent<Raw>): void {
    try {
      this.#observe?.(event);
    } catch {
      // Whoever looks on must not change what happens.
    }
  }

  /** The user's own response for a refusal; a plain one when that cannot be had. */
  async customResponse(
    make: (rejection: Rejection) => Response | Promise<Response>,
    rejection: Rejection,
    fields: readonly (readonly [string, string])[],
  ): Promise<Response> {
    try {
      const made = await make(rejection);
      const headers = new Headers(made.headers);
      for (const [name, value] of fields) {
        // The length is that of a body which is not sent.
        if (name !== "content-length" && !headers.has(name)) headers.set(name, value);
      }
      const { status, statusText } = made;
      // Read here, where it may fail: the head has not been sent.
      const body = made.body === null || rejection.method === "HEAD" ? null : await made.arrayBuffer();
      return new Response(body, { status, statusText, headers });
    } catch (error) {
      this.#tell({ type: "error", error, request: undefined });
      return new Response(null, { status: rejection.status, headers: fields as [string, string][] });
    }
  }

  statistics(): AdmissionStatistics {
    const shadowed = this.policies.filter((policy) => policy.isShadow);
    return {
      active: this.active,
      queued: this.queued,
      admitted: this.#admitted,
      completed: this.#completed,
      failed: this.#failed,
      aborted: this.#aborted,
      shed: this.#shed,
      shedBy: this.#shedBy.map((entry) => ({ ...entry })),
      deadlineExpired: this.#deadlineExpired,
      deliveredInTime: this.#deliveredInTime,
      clientGone: this.#clientGone,
      holdExpired: this.#holdExpired,
      limiterErrors: this.#limiterErrors,
      shadows: shadowed.map(({ name, wouldHaveShed, wouldHaveWaited }) => ({
        policy: name,
        wouldHaveShed,
        wouldHaveWaited,
      })),
    };
  }

  /** Settles when nobody holds or waits for anything. */
  whenQuiet(): Promise<void> {
    return new Promise((resolve) => {
      this.#quiet.push(resolve);
      this.noteQuiet();
    });
  }

  /** To be called when somebody has left. */
  noteQuiet(): void {
    if (this.active + this.queued > 0) return;
    for (const resolve of this.#quiet.splice(0)) resolve();
  }

  dispose(): void {
    this.isDraining = true;
    this.pressure?.dispose();
    for (const policy of this.policies) policy.dispose();
  }
}

function checkOptions<Raw>(options: AdmissionOptions<Raw>): void {
  const { priorities, priority, deadline, minRemainingMs, hold, maxHoldMs, reject, headers } = options;
  if (priorities !== undefined) {
    const isList = Array.isArray(priorities) && priorities.length > 0;
    const isUnique = isList && new Set(priorities).size === priorities.length;
    if (!isUnique || priorities.some((name) => typeof name !== "string" || name === "")) {
      throw wrongType(
        "options.priorities",
        "a list of different names, the most important first",
        priorities,
      );
    }
  }
  const { onReject, observe, random, clock } = options;
  for (const [name, value] of Object.entries({ priority, deadline, onReject, observe, random })) {
    if (value !== undefined) checkFunction(`options.${name}`, value);
  }
  if (minRemainingMs !== undefined) {
    const fits = (n: number) => n >= 0 && n < Number.POSITIVE_INFINITY;
    checkNumber("options.minRemainingMs", minRemainingMs, "a finite number of milliseconds from 0", fits);
  }
  if (hold !== undefined) checkChoice("options.hold", hold, ["response", "handler"]);
  if (maxHoldMs !== undefined) {
    checkDuration("options.maxHoldMs", maxHoldMs);
    checkNumber("options.maxHoldMs", maxHoldMs, "at most 2147483647 ms", (n) => n <= 2 ** 31 - 1);
  }
  if (reject !== undefined) checkRejectOptions(reject, "options.reject");
  if (headers !== undefined)
    checkChoice("options.headers", headers, ["ratelimit", "x-ratelimit", "both", "none"]);
  const { exposeHeaders, skipPreflight, onError } = options;
  for (const [name, value] of Object.entries({ exposeHeaders, skipPreflight })) {
    if (value !== undefined) checkBoolean(`options.${name}`, value);
  }
  if (onError !== undefined) checkChoice("options.onError", onError, ["open", "closed"]);
  if (clock !== undefined) checkMethods("options.clock", clock, ["now", "setTimer"]);
}
