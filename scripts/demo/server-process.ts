import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Capacity, ServerMessage, ServerReport } from "./server.js";

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** A server of limited capacity in a child process, which ends with this object or with this process. */
export class ServerProcess implements Disposable {
  readonly #child: ChildProcess;
  readonly url: string;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.url = `http://127.0.0.1:${port}/`;
  }

  static async start(capacity: Capacity): Promise<ServerProcess> {
    const child = fork(fileURLToPath(new URL("server.js", import.meta.url)), [JSON.stringify(capacity)]);
    running.add(child);
    const { port } = await nextMessage(child, "port");
    return new ServerProcess(child, port);
  }

  /** What the server has counted so far. */
  async report(): Promise<ServerReport> {
    if (!this.#child.connected) throw new Error("A server ended in the middle of its run.");
    const answer = nextMessage(this.#child, "report");
    this.#child.send("report");
    return (await answer).report;
  }

  [Symbol.dispose](): void {
    running.delete(this.#child);
    this.#child.kill("SIGKILL");
  }
}

function nextMessage<Key extends string>(
  child: ChildProcess,
  key: Key,
): Promise<Extract<ServerMessage, Record<Key, unknown>>> {
  return new Promise((resolve, reject) => {
    const ended = (code: number | null, signal: string | null): void =>
      reject(new Error(`The server ended before it sent its ${key} (${signal ?? code}).`));
    child.once("error", reject).once("exit", ended);
    child.once("message", (message) => {
      child.off("error", reject).off("exit", ended);
      resolve(message as Extract<ServerMessage, Record<Key, unknown>>);
    });
  });
}
