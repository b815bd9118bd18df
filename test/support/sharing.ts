import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Whether a test file changes things that its process has only once: the clock, the environment, functions of modules.
 */
export function changesItsProcess(text: string): boolean {
  return /import \{[^}]*\bvi\b[^}]*\} from 'vitest'|process\.env\.\w+ =|delete process\.env/.test(text)
}

/** The test files among these that can run in a process that has run others before. */
export function filesThatShare(root: string, patterns: readonly string[]): string[] {
  return globSync(patterns, { cwd: root })
    .map((path) => path.replaceAll('\\', '/'))
    .filter((path) => !changesItsProcess(readFileSync(join(root, path), 'utf8')))
}
