import type { CodeTable } from '../../tools/error-docs.ts'
import { withoutComments } from './imports.ts'
import type { Sources } from './sources.ts'

/** Compares the thrown codes with the table. Returns the differences. */
export function findCodeGaps(sources: Sources, table: CodeTable): readonly string[] {
  const problems: string[] = []
  const thrown = new Set<string>()
  for (const [path, source] of sources) {
    const made = /new SignalboxError\(\s*(?:'([^']*)'|([\w.]+ as ErrorCode))?/g
    for (const [, code, fromElsewhere] of withoutComments(source).matchAll(made)) {
      // An error that crossed a wire, or came from another thread, was thrown elsewhere in the sources.
      if (fromElsewhere !== undefined) continue
      if (code === undefined) problems.push(`${path}: a code must be written where it is thrown`)
      else thrown.add(code)
    }
  }
  for (const code of Object.keys(table))
    if (!thrown.has(code)) problems.push(`${code} is in the table, but nothing throws it`)
  for (const code of thrown)
    if (!Object.hasOwn(table, code)) problems.push(`${code} is thrown, but not in the table`)
  return problems
}
