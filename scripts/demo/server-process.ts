import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";

/** What a server program of this folder sends: its port once it listens, and its report whenever it is asked for one. */
export type ServerMessage<Report> = { readonly port: number } | { readonly report: Report };

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** A server in a child process, which ends with this object or with this process. */
export class ServerProcess<Report> implements Disposable {
  readonly #child: ChildProcess;
  readonly url: string;

  private constructor(child: ChildProcess, port: number) {
    this.#child = child;
    this.url = `http://127.0.0.1:${port}/`;
  }

  /** Starts a program of this folder, which finds its settings as JSON in its first argument. */
  static async start<Report>(program: string, settings: object): Promise<ServerProcess<Report>> {
    const child = fork(fileURLToPath(new URL(program, import.meta.url)), [JSON.stringify(settings)]);
    running.add(child);
    const { port } = await nextMessage<Report, "port">(child, "port");
    return new ServerProcess(child, port);
  }

  /** What the server has counted so far. */
  async report(): Promise<Report> {
    if (!this.#child.connected) throw new Error("A server ended in the middle of its run.");
    const answer = nextMessage<Report, "report">(this.#child, "report");
    this.#child.send("report");
    return (await answer).report;
  }

  [Symbol.dispose](): void {
    running.delete(this.#child);
    this.#child.kill("SIGKILL");
  }
}

function nextMessage<Report, Key extends string>(
  child: ChildProcess,
  key: Key,
): Promise<Extract<ServerMessage<Report>, Record<Key, unknown>>> {
  return new Promise((resolve, reject) => {
    const ended = (code: number | null, signal: string | null): void =>
      reject(new Error(`The server ended before it sent its ${key} (${signal ?? code}).`));
    child.once("error", reject).once("exit", ended);
    child.once("message", (message) => {
      child.off("error", reject).off("exit", ended);
      resolve(message as Extract<ServerMessage<Report>, Record<Key, unknown>>);
    });
  });
}
