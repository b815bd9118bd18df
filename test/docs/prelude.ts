/**
 * What a page's fragments stand on. A prelude, `preludes/<page>.ts`, is a plain module: whatever it exports is in scope of
 * the page's TypeScript, as if the reader had written it. Besides, it may say here what happens around the blocks and what
 * must be true after one of them. It works in the page's folder, which is empty at first.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import type { Block } from './blocks.ts'

/** What came of a block. */
export interface Ran {
  /** What it printed, on either stream. */
  readonly output: string
  /** What it declared at its outermost level, by name. */
  // biome-ignore lint/suspicious/noExplicitAny: a check says by its assertions what it expects
  readonly values: Readonly<Record<string, any>>
  /** A block of data, decoded; of `yaml`, and of a file, the text. */
  // biome-ignore lint/suspicious/noExplicitAny: the same
  readonly data: any
}

type Begin = (block: Block) => End | Promise<End>
type End = (() => unknown) | undefined | void

const begins: Begin[] = []
const checks = new Map<string, (ran: Ran) => unknown>()
const replacements = new Map<string, string | (() => string)>()
/** Variables that the page's shell has set. */
export const shellEnvironment: Record<string, string> = {}

/** Called before every block; what it returns, after it. Things that belong to one block are made and ended here. */
export function around(begin: Begin): void {
  begins.push(begin)
}

/**
 * What must hold after the block under this heading; `'Heading #2'` is the second there. A program is looked at from within:
 * its boxes are open and its workers run.
 */
export function check(key: string, expectation: (ran: Ran) => unknown): void {
  if (checks.has(key)) throw new Error(`there are two checks of "${key}"`)
  checks.set(key, expectation)
}

/** The placeholder in the page for a value that only the run knows: an id, an address of a stand-in. */
export function replace(text: string, by: string | (() => string)): void {
  replacements.set(text, by)
}

/** Puts a program on the PATH of the page's shell: something that it calls and that is not ours. */
export function command(name: string, script: string): void {
  mkdirSync('bin', { recursive: true })
  writeFileSync(`bin/${name}`, `#!/usr/bin/env bash\n${script}\n`, { mode: 0o755 })
}

/** The end of a program's block calls this with what it declared, before it disposes of anything. */
export async function checkHere(values: Ran['values']): Promise<void> {
  await registered.whenAtEnd?.(values)
}

/** For the runner. */
export const registered: {
  readonly begins: readonly Begin[]
  readonly checks: ReadonlyMap<string, (ran: Ran) => unknown>
  readonly replacements: ReadonlyMap<string, string | (() => string)>
  whenAtEnd: ((values: Ran['values']) => unknown) | undefined
} = { begins, checks, replacements, whenAtEnd: undefined }
