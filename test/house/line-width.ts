/** Lines of text in Markdown that are too long to read in a terminal or a diff; tables and code may be longer. */
export function findWideLines(path: string, page: string): readonly string[] {
  const withoutCode = page.replace(/```[\s\S]*?```/g, (block) => block.replace(/[^\n]/g, ''))
  return withoutCode
    .split('\n')
    .flatMap((line, index) =>
      line.length > 120 && !line.startsWith('|') ? [`${path}:${index + 1}: ${line.length} characters`] : [],
    )
}
