import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { test } from 'vitest'
import { Walk } from './walk.ts'

const folder = join(dirname(fileURLToPath(import.meta.url)), '../../../src/dispatch')

/** Whatever would let the outside in: clocks, dice, timers, the process, the network, anything to wait for. */
const outside = [
  'Date',
  'performance',
  'process',
  'fetch',
  'setTimeout',
  'setInterval',
  'setImmediate',
  'queueMicrotask',
  'crypto',
  'Promise',
  'WebSocket',
  'console',
  'Buffer',
]

/** The files that the registry, and what reads it, is made of: reached by imports from these. */
function files(): ReadonlyMap<string, string> {
  const found = new Map<string, string>()
  const open = ['registry/registry.ts', 'registry/mailbox.ts', 'explain-task.ts', 'service-counts.ts']
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (found.has(name)) continue
    const source = readFileSync(join(folder, name), 'utf8')
    found.set(name, source)
    for (const [, from] of source.matchAll(/(?:from|import\()\s*'([^']+)'/g)) {
      const target = posix.join(posix.dirname(name), from!)
      assert.match(
        target,
        /^(((registry|matching)\/)?[\w-]+|\.\.\/core\/(ring|position-heap))\.ts$/,
        `${name} imports ${from}`,
      )
      open.push(target)
    }
  }
  return found
}

test('the registry imports only its own files, and no file waits, reads a clock or uses other randomness', () => {
  const sources = files()
  assert.ok(
    sources.size > 18 && sources.has('registry/registry-state.ts') && sources.has('matching/generation.ts'),
  )
  for (const [name, source] of sources) {
    const code = source.replace(/\/\*[\s\S]*?\*\/|\/\/.*$|`[^`]*`|'[^']*'/gm, '')
    assert.doesNotMatch(
      code,
      /\b(await|async|yield\*? await|Math\.random|globalThis|require|import\.meta)\b/,
      name,
    )
    for (const word of outside)
      assert.doesNotMatch(code, new RegExp(`(?<![.\\w#])${word}\\b(?!:)`), `${name}: ${word}`)
  }
})

test('the registry runs without a clock, randomness, timers, a process and a network', () => {
  const walk = new Walk(5, { acceptMs: 3_000, ageMs: 500 })
  const kept = outside.map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)] as const)
  const { random } = Math
  const touched = (name: string) => () => {
    throw new Error(`It used ${name}.`)
  }
  let problem: unknown
  try {
    for (const [name] of kept) {
      Object.defineProperty(globalThis, name, { configurable: true, get: touched(name), set: () => {} })
    }
    Math.random = touched('Math.random')
    for (let step = 0; step < 2_000; step += 1) walk.step()
    walk.registry.pools()
    for (const { nodeId } of walk.registry.nodes()) walk.registry.node(nodeId)
  } catch (error) {
    problem = error
  } finally {
    Math.random = random
    for (const [name, descriptor] of kept) {
      if (descriptor === undefined) Reflect.deleteProperty(globalThis, name)
      else Object.defineProperty(globalThis, name, descriptor)
    }
  }
  assert.equal(problem, undefined)
  assert.ok((walk.model.counts.assign ?? 0) > 100)
})
