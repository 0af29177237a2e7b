import { StoreError } from '../errors.js';
import { ArrayNode, DocumentNode, nodeValue, toValue, type Node } from '../bson/encode.js';
import { render } from '../bson/render.js';
import { BsonType } from '../bson/values.js';

/** Elements an assignment beyond the end of an array may fill with null. */
const maximumBackfill = 1_500_000;

/** Where a path ends: a field of a document or an element of an array. */
export class Place {
  constructor(
    private readonly parent: DocumentNode | ArrayNode,
    private readonly name: string,
  ) {}

  get(): Node | undefined {
    return this.parent instanceof DocumentNode
      ? this.parent.get(this.name)
      : this.parent.items[Number(this.name)];
  }

  set(node: Node): void {
    if (this.parent instanceof DocumentNode) return this.parent.set(this.name, node);
    const { items } = this.parent;
    const index = Number(this.name);
    if (index - items.length > maximumBackfill)
      throw new StoreError(2, `can't backfill array to larger than ${maximumBackfill} elements`);
    while (items.length < index) items.push(toValue(null));
    items[index] = node;
  }

  /** An array keeps its length: a removed element becomes null. */
  remove(): void {
    if (this.parent instanceof DocumentNode) this.parent.delete(this.name);
    else if (Number(this.name) < this.parent.items.length) this.set(toValue(null));
  }

  get isElement(): boolean {
    return this.parent instanceof ArrayNode;
  }
}

/** Opens an embedded document or array for change; scalars stay closed. */
export function opened(node: Node): Node {
  if (node instanceof DocumentNode || node instanceof ArrayNode) return node;
  if (node.type === BsonType.object) return DocumentNode.of(node);
  return node.type === BsonType.array ? ArrayNode.of(node) : node;
}

const isPosition = (part: string): boolean => /^(0|[1-9]\d{0,8})$/.test(part);

/**
 * The place of a path. With `create`, missing documents on the way are made and a scalar on the way is refused
 * (28); without, a path that leads nowhere gives undefined.
 */
export function placeOf(root: DocumentNode, path: string, create: boolean): Place | undefined {
  const parts = path.split('.');
  const last = parts.pop() as string;
  let parent: DocumentNode | ArrayNode = root;
  let holder = '';
  for (const part of parts) {
    if (parent instanceof ArrayNode && !isPosition(part)) return deadEnd(parent, part, holder, create);
    const place: Place = new Place(parent, part);
    const known = place.get();
    if (!known && !create) return undefined;
    const next: Node = known ? opened(known) : new DocumentNode();
    if (!(next instanceof DocumentNode) && !(next instanceof ArrayNode)) {
      if (!create) return undefined;
      throw notViable(parts[parts.indexOf(part) + 1] ?? last, part, next);
    }
    place.set(next);
    parent = next;
    holder = part;
  }
  if (parent instanceof ArrayNode && !isPosition(last)) return deadEnd(parent, last, holder, create);
  return new Place(parent, last);
}

function deadEnd(array: ArrayNode, part: string, holder: string, create: boolean): undefined {
  if (create) throw notViable(part, holder, array);
  return undefined;
}

const notViable = (part: string, holder: string, node: Node): StoreError =>
  new StoreError(28, `Cannot create field '${part}' in element {${holder}: ${render(nodeValue(node))}}`);
