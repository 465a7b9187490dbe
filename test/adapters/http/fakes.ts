import { EventEmitter } from "node:events";

/** What admission looks at of a request of node:http. */
export interface FakeRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Record<string, string>;
  readonly socket: { readonly remoteAddress: string; readonly destroyed: boolean };
}

/** A request of node:http as far as admission looks at it; thousands of them cost little. */
export function fakeRequest(remoteAddress: string, headers: Record<string, string> = {}): FakeRequest {
  return { method: "GET", url: "/", headers, socket: { remoteAddress, destroyed: false } };
}

/** A response of node:http as far as admission looks at it. */
export class FakeResponse extends EventEmitter {
  statusCode = 200;
  headersSent = false;
  writableEnded = false;
  writableFinished = false;
  destroyed = false;
  readonly socket: object = {};
  readonly fields: Record<string, string> = {};

  writeHead(status: number, fields: Record<string, string> = {}): this {
    this.statusCode = status;
    this.headersSent = true;
    Object.assign(this.fields, fields);
    return this;
  }

  getHeader(name: string): string | undefined {
    return this.fields[name];
  }

  getHeaderNames(): string[] {
    return Object.keys(this.fields);
  }

  appendHeader(name: string, value: string): void {
    this.fields[name] = value;
  }

  setHeader(): void {}

  write(): void {}

  /** Sends all, and closes. */
  end(): void {
    if (!this.headersSent) this.writeHead(this.statusCode);
    this.writableEnded = true;
    this.writableFinished = true;
    this.emit("finish");
    this.emit("close");
  }

  /** As if the client had left. */
  leave(): void {
    this.destroyed = true;
    this.emit("close");
  }
}
