/**
 * Text that must show as text where the provider reads Markdown. DingTalk and WeCom each know a part of it and do not
 * say which escapes they know, so each construct is also broken for a reader that knows none: a backslash stands
 * between `]` and `(`, and a mention's or a tag's `<` is gone.
 */
export function escapeMarkdown(text: string): string {
  return (
    text
      .replace(/&(?=#|[a-zA-Z])/g, '&amp;')
      .replaceAll('<', '&lt;')
      .replace(/[\\`*~[\]]/g, '\\$&')
      .replaceAll('](', ']\\(')
      .replaceAll('!\\[', '\\!\\[')
      // Within a word an underscore is only that, and names are full of them.
      .replace(/(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/gu, '\\_')
      // What would begin a heading, a quotation, a table, a list or a rule, for it opens its line.
      .replace(/^(?:[#>|]|[+-](?=[\s+-]|$)|=(?==))/, '\\$&')
      .replace(/^\d+(?=[.)](?:\s|$))/, '$&\\')
  )
}
