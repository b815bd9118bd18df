import type { Revivable } from './revivable.ts'

/** The servers that tests can ask for. */
export const serviceNames = ['postgres', 'mariadb', 'redis'] as const

export type ServiceName = (typeof serviceNames)[number]

/** How to start a test server. */
export interface ServiceOptions {
  /**
   * Whether a commit is on disk before it is answered, as in production. Crash tests and benches need that; all other
   * tests would only wait longer. A server that existed before this run is used as it is. @default false
   */
  readonly durable?: boolean
  /** Additional environment variables. */
  readonly env?: Readonly<Record<string, string>>
}

/** The facts about a server that test files get. */
export interface ServiceFacts {
  readonly url: string
  readonly version: string
  /** Where it came from, for people: `environment`, `installed`, `embedded`, `apt`. */
  readonly from: string
}

/** A server for the tests. Disposing of it ends it and removes its folder, if this run started it. */
export interface Service extends ServiceFacts {
  readonly name: ServiceName
  /** Absent when the server existed before this run. */
  readonly pid?: number
  /** The folder of its data; absent when the server existed before this run. */
  readonly folder?: string
  /** How to kill it with -9 and start it again; absent when the server existed before this run. */
  readonly revivable?: Pick<Revivable, 'crash' | 'restart'>
  [Symbol.asyncDispose](): Promise<void>
}

declare module 'vitest' {
  interface ProvidedContext {
    /** The servers of this run (setup.ts); a missing one was left out on purpose. */
    services: Partial<Record<ServiceName, ServiceFacts>>
  }
}
