/** One import of a file, as it is written. */
export interface Import {
  /** The imported path; undefined when it is computed. */
  readonly specifier: string | undefined
  /** Whether the whole statement disappears with the types. `import { type A }` does not: it still loads the file. */
  readonly typeOnly: boolean
}

/**
 * All imports of a source: `import … from`, `export … from`, `import '…'` and `import(…)`. TypeScript 7 has no parser
 * to call, so this reads text. It relies on the formatter, which starts every statement at the start of a line.
 */
export function scanImports(source: string): readonly Import[] {
  const code = withoutComments(source)
  const found: Import[] = []
  // Between the keyword and `from` there are names, braces, commas and stars, never a quote, `=` or `(`.
  const statements =
    /^(?:import|export)\b(\s+type\b(?!\s*(?:,|from\b)))?[\w\s{},*$]*?\bfrom\s*(['"])([^'"\n]+)\2/gm
  for (const [, type, , specifier] of code.matchAll(statements)) {
    found.push({ specifier, typeOnly: type !== undefined })
  }
  for (const [, , specifier] of code.matchAll(/^import\s*(['"])([^'"\n]+)\1/gm)) {
    found.push({ specifier, typeOnly: false })
  }
  for (const [, , specifier] of code.matchAll(/(?<![\w$.#])import\s*\(\s*(?:(['"])([^'"\n]+)\1)?/g)) {
    found.push({ specifier, typeOnly: false })
  }
  return found
}

/** The source without comments. `//` counts only after a space or at the start of a line, so URLs survive. */
export function withoutComments(source: string): string {
  return source.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '$1')
}
