/**
 * Finds a promise that a function returns without `await` although it disposes of something when it leaves: a `using`,
 * or a `finally`. The disposal happens at once, and the work behind the promise goes on without the resource.
 *
 *   await using box = await open(url)
 *   return work(box)                       // the box is closed while work has just begun
 *
 * The check knows no types. A function that is called by its plain name is looked up in its file. Any other call counts
 * as a promise when a function of that name anywhere in the sources is `async` or declares a Promise. An `await` too
 * many costs nothing.
 */
import { parseAst } from 'vite'
import type { Sources } from './sources.ts'

/** A piece of the syntax tree; its other fields depend on its type. */
interface Syntax {
  readonly type: string
  readonly start: number
  readonly [part: string]: unknown
}

/** True for names that return a promise, false for names that do not. */
type Names = ReadonlyMap<string, boolean>

/** Each as `path:line: what`. */
export function findUnawaited(sources: Sources): readonly string[] {
  const files = Array.from(sources, ([path, text]) => {
    const tree = parse(path, text)
    return { path, text, tree, names: namesIn(tree) }
  })
  const anywhere = new Map(files.flatMap(({ names }) => [...names].filter(([, isPromising]) => isPromising)))
  for (const name of notPromising) anywhere.delete(name)
  return files.flatMap(({ path, text, tree, names }) => {
    const returned = returnsIn(tree)
    const kept = returned.length === 0 ? none : new Set(promisesKeptIn(tree, names, anywhere))
    return returned
      .filter((value) => isPromise(value, names, anywhere, kept))
      .map((value) => `${path}:${lineOf(text, value)}: await ${textOf(text, value)}`)
  })
}

const none: ReadonlySet<string> = new Set()

/** Methods that mostly have another meaning: of arrays, of SQLite statements, of printers. */
const notPromising = ['map', 'all', 'json', 'line']
/** The language's own. */
const promising: ReadonlySet<string> = new Set(['then', 'catch', 'finally', 'fetch'])

function parse(path: string, text: string): Syntax {
  return parseAst(text, { lang: path.endsWith('x') ? 'tsx' : 'ts' }, path) as unknown as Syntax
}

function lineOf(text: string, { start }: Syntax): number {
  return text.slice(0, start).split('\n').length
}

function textOf(text: string, { start }: Syntax): string {
  return text.slice(start, start + 80).split('\n', 1)[0]!
}

/** The functions, methods and variables of a file. */
function namesIn(tree: Syntax): Map<string, boolean> {
  const names = new Map<string, boolean>()
  const look = (node: Syntax) => {
    const { key, id, value, init } = node as Readonly<Record<string, Syntax | null | undefined>>
    const name = nameOf(node.type === 'Identifier' && node.typeAnnotation ? node : (key ?? id))
    const parts = [node, value, init].filter((part) => part !== null && part !== undefined)
    // One name may mean several things in a file; one of them is enough.
    if (name !== undefined) names.set(name, names.get(name) === true || parts.some(answersPromise))
    for (const child of childrenOf(node)) look(child)
  }
  look(tree)
  return names
}

/** A function or a method, or the type of one. */
function answersPromise(node: Syntax): boolean {
  if (node.async === true && node.generator !== true) return true
  const { returnType, typeAnnotation } = node as Readonly<Record<string, Syntax | null | undefined>>
  const said = (returnType ?? typeAnnotation)?.typeAnnotation as Syntax | undefined
  if (said?.type === 'TSFunctionType') return answersPromise(said)
  // For a variable this is the type of its value; only for a function the type of its result.
  return isCallable(node) && said?.type === 'TSTypeReference' && nameOf(said.typeName as Syntax) === 'Promise'
}

function isCallable({ type }: Syntax): boolean {
  return /Function|Method/.test(type)
}

/** Returned expressions in functions that dispose of something afterwards. */
function returnsIn(node: Syntax, isGuarded = false): readonly Syntax[] {
  if (isFunction(node)) return childrenOf(node).flatMap((child) => returnsIn(child))
  switch (node.type) {
    case 'ReturnStatement':
      return isGuarded && node.argument ? valuesOf(node.argument as Syntax) : []
    case 'BlockStatement':
      return returnsInBlock(node.body as readonly Syntax[], isGuarded)
    case 'TryStatement': {
      const { block, handler, finalizer } = node as unknown as Record<string, Syntax | null>
      const isWithin = isGuarded || finalizer !== null
      return [
        ...returnsIn(block!, isWithin),
        ...(handler ? returnsIn(handler, isWithin) : []),
        ...(finalizer ? returnsIn(finalizer, isGuarded) : []),
      ]
    }
    default:
      return childrenOf(node).flatMap((child) => returnsIn(child, isGuarded))
  }
}

function returnsInBlock(statements: readonly Syntax[], isGuarded: boolean): readonly Syntax[] {
  let isWithin = isGuarded
  return statements.flatMap((statement) => {
    const found = returnsIn(statement, isWithin)
    if (statement.type === 'VariableDeclaration' && /using$/.test(String(statement.kind))) isWithin = true
    return found
  })
}

function isFunction({ type }: Syntax): boolean {
  return /^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression|StaticBlock)$/.test(type)
}

/** All possible values of an expression: both sides of a choice. */
function valuesOf(node: Syntax): readonly Syntax[] {
  const parts = (...names: readonly string[]) => names.flatMap((name) => valuesOf(node[name] as Syntax))
  switch (node.type) {
    case 'ConditionalExpression':
      return parts('consequent', 'alternate')
    case 'LogicalExpression':
      return parts('left', 'right')
    case 'TSAsExpression':
    case 'TSNonNullExpression':
    case 'TSSatisfiesExpression':
    case 'ParenthesizedExpression':
    case 'ChainExpression':
      return parts('expression')
    default:
      return [node]
  }
}

/** Variables that hold a promise without an await. */
function promisesKeptIn(node: Syntax, here: Names, anywhere: Names): readonly string[] {
  const { id, init } = node as Readonly<Record<string, Syntax | null | undefined>>
  const isKept = node.type === 'VariableDeclarator' && init && isPromise(init, here, anywhere)
  const inside = childrenOf(node).flatMap((child) => promisesKeptIn(child, here, anywhere))
  return isKept && id?.type === 'Identifier' ? [nameOf(id)!, ...inside] : inside
}

function isPromise(node: Syntax, here: Names, anywhere: Names, kept: ReadonlySet<string> = none): boolean {
  const callee = node.callee as Syntax | undefined
  const name = nameOf(callee) ?? ''
  if (node.type === 'Identifier') return kept.has(node.name as string)
  if (node.type === 'NewExpression') return name === 'Promise'
  if (node.type !== 'CallExpression') return false
  if (callee?.type !== 'MemberExpression') return here.get(name) ?? anywhere.get(name) ?? promising.has(name)
  return nameOf(callee.object as Syntax) === 'Promise' || anywhere.has(name) || promising.has(name)
}

/** The name of an identifier, or the last name in `a.b.c`. */
function nameOf(node: Syntax | null | undefined): string | undefined {
  if (node?.type === 'MemberExpression') return nameOf(node.property as Syntax)
  return typeof node?.name === 'string' ? node.name : undefined
}

function childrenOf(node: Syntax): readonly Syntax[] {
  const children: Syntax[] = []
  for (const part of Object.values(node)) {
    if (isSyntax(part)) children.push(part)
    else if (Array.isArray(part)) for (const each of part) if (isSyntax(each)) children.push(each)
  }
  return children
}

function isSyntax(value: unknown): value is Syntax {
  return typeof (value as Syntax | null)?.type === 'string' && typeof (value as Syntax).start === 'number'
}
